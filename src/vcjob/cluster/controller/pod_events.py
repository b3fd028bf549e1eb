"""Why a pod that has a node does not start: only its events say so (a volume that cannot be mounted, a sandbox that
cannot be created, a slow image pull), so they are fetched when the start takes long. An API error is ignored."""

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

#: How long before the events are fetched again.
FETCH_AGAIN_SECONDS = 15.0

_REASONS = {
    "FailedMount": reasons.VOLUME,
    "FailedAttachVolume": reasons.VOLUME,
    "FailedMapVolume": reasons.VOLUME,
    "FailedCreatePodSandBox": reasons.POD_SANDBOX,
}


class PartialEvent(msgspec.Struct, rename="camel", gc=False):
    """The fields of an event that explain a slow start."""

    reason: str = ""
    message: str = ""
    type: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


PARTIAL_EVENTS = EVENTS.read_as(PartialEvent)


async def fetch_start_failure(client: Client, state: JobState, now: float) -> float | None:
    """Fetch the events of the slowest-starting pod. Returns the seconds until the next fetch; None if no pod is slow."""
    slow = state.pods.causes.slow_starter(now)
    if slow is None:
        state.pending.start_failure = None
        return None
    left = state.pending.events_fetched_at + FETCH_AGAIN_SECONDS - time.monotonic()
    if left > 0:
        return left
    state.pending.events_fetched_at = time.monotonic()
    try:
        events = await client.list(PARTIAL_EVENTS, state.namespace, fields=f"involvedObject.uid={slow}")
    except KubeError:
        return FETCH_AGAIN_SECONDS  # only the message is less precise
    found = newest(events)
    state.pending.start_failure = (slow, found) if found is not None else None
    return FETCH_AGAIN_SECONDS


def newest(events: list[PartialEvent]) -> Blocked | None:
    """The latest event; warnings come before normal events."""
    found = [event for event in events if event.type == "Warning"] or events
    if not found:
        return None
    last = max(found, key=_when)
    return Blocked(_REASONS.get(last.reason, reasons.STARTING), f"{last.reason}: {last.message}")


def _when(event: PartialEvent) -> float:
    at = event.last_timestamp or event.event_time
    return at.timestamp() if at is not None else 0.0
