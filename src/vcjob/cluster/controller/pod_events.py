"""Why a pod that has its node does not start: only its events say so (a volume that cannot be mounted, a
sandbox that cannot be made, an image that takes its time), so they are asked for when it takes long."""

from __future__ import annotations

import time
from datetime import datetime

import msgspec

from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import EVENTS
from vcjob.kube.errors import KubeError
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons

#: How long an answer holds before the events are asked for again.
ASK_AGAIN_SECONDS = 15.0

_REASONS = {
    "FailedMount": reasons.VOLUME,
    "FailedAttachVolume": reasons.VOLUME,
    "FailedMapVolume": reasons.VOLUME,
    "FailedCreatePodSandBox": reasons.POD_SANDBOX,
}


class PartialEvent(msgspec.Struct, rename="camel", gc=False):
    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


PARTIAL_EVENTS = EVENTS.read_as(PartialEvent)


async def fetch_start_failure(client: Client, entry: JobState, now: float) -> float | None:
    """Have the words about the slow starter that is told of at hand. How soon to ask again; None: nobody is slow."""
    slow = entry.causes.slow_starter(now)
    if slow is None:
        entry.start_words = None
        return None
    left = entry.start_asked + ASK_AGAIN_SECONDS - time.monotonic()
    if left > 0:
        return left
    entry.start_asked = time.monotonic()
    try:
        events = await client.list(PARTIAL_EVENTS, entry.namespace, fields=f"involvedObject.uid={slow}")
    except KubeError:
        return ASK_AGAIN_SECONDS  # the Job can do without
    said = newest(events)
    entry.start_words = (slow, said) if said is not None else None
    return ASK_AGAIN_SECONDS


def newest(events: list[PartialEvent]) -> Blocked | None:
    """What was said last; a warning counts for more than all that went well."""
    found = [event for event in events if event.type == "Warning"] or events
    if not found:
        return None
    last = max(found, key=_when)
    return Blocked(_REASONS.get(last.reason, reasons.STARTING), f"{last.reason}: {last.message}")


def _when(event: PartialEvent) -> float:
    at = event.last_timestamp or event.event_time
    return at.timestamp() if at is not None else 0.0
