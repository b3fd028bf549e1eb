"""Events on Jobs, for users. They are written in the background: no reconcile waits for them.

An event that cannot be written is dropped; a lost Lease is raised.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from datetime import UTC, datetime
from typing import Literal, TypeAlias

import msgspec

from vcjob.cluster.controller.cache.job_state import JobState, QueueKey
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import EVENTS, Document
from vcjob.kube.errors import KubeError, LeaseLost
from vcjob.lifecycle.policies import POD_EVICTED
from vcjob.spec.job import API_VERSION, KIND
from vcjob.wellknown import reasons

EventType: TypeAlias = Literal["Normal", "Warning"]
log = logging.getLogger(__name__)
COMPONENT = "vcjob-controller"
#: The same event on the same Job is not repeated for this long.
REPEAT_SECONDS = 300.0
#: Events of one Job and reason in that time; further ones are dropped. Users choose parts of some messages.
EVENTS_PER_REASON = 25
#: Events of a reason that comes in bursts are combined for this long.
COMBINE_SECONDS = 5.0
#: Pending reasons that are part of every start or end, and no event.
_EXPECTED = frozenset(
    {reasons.STARTING, reasons.INIT_STEP, reasons.OBJECT_TERMINATING, reasons.PREVIOUS_JOB_TERMINATING}
)
_QUEUE_LIMIT = 5_000
_MESSAGE_LIMIT = 1000


class _Combined(msgspec.Struct):
    """Events of one Job and reason that become one event, with as many messages as it can show."""

    state: JobState
    type: EventType
    messages: list[str]
    length: int = 0

    def add(self, message: str) -> None:
        if self.length <= _MESSAGE_LIMIT and message not in self.messages:
            self.messages.append(message)
            self.length += len(message)


class _Ignored(msgspec.Struct):
    """The API server's answer, which is not read."""


_EVENTS = EVENTS.read_as(_Ignored)


class EventRecorder:
    """Queues events that the reconciler emits; `run` writes them one at a time.

    The controller runs it as a task. Events are for users only, so one that cannot be written is logged and dropped,
    except that a lost Lease is raised.
    """

    def __init__(self, client: Client, identity: str) -> None:
        self._client = client
        self._identity = identity
        self._queue: asyncio.Queue[Document] = asyncio.Queue(_QUEUE_LIMIT)
        self._number = itertools.count()
        self._combined: dict[tuple[QueueKey, str], _Combined] = {}

    def emit(
        self, state: JobState, type: EventType, reason: str, message: str, *, once_per_reason: bool = False
    ) -> None:
        """Queue an event on the Job unless it was emitted lately: the same message, or the same reason if
        `once_per_reason`."""
        if reason == POD_EVICTED:
            self._combine(state, type, reason, message)
        else:
            self._emit(state, type, reason, message, "" if once_per_reason else message[:_MESSAGE_LIMIT])

    def _emit(self, state: JobState, type: EventType, reason: str, message: str, key: str) -> None:
        now = time.time()
        known = state.recent_events.get(reason, {})
        recent = {old: at for old, at in known.items() if now - at < REPEAT_SECONDS}
        if state.resource is None or key in recent or len(recent) >= EVENTS_PER_REASON:
            return
        state.recent_events[reason] = {**recent, key: now}
        try:
            self._queue.put_nowait(self._event(state, type, reason, message, now))
        except asyncio.QueueFull:
            log.warning("event queue is full; dropped an event of %s/%s", state.namespace, state.name)

    def emit_pending_reason(self, state: JobState) -> None:
        """Report what keeps pods from being created or from running, once for each reason."""
        blocked = state.observed.blocked or state.observed.held
        if blocked is not None and blocked.reason not in _EXPECTED:
            type: EventType = "Normal" if blocked.reason == reasons.WAITING_IN_QUEUE else "Warning"
            self.emit(state, type, blocked.reason, blocked.message, once_per_reason=True)

    def _combine(self, state: JobState, type: EventType, reason: str, message: str) -> None:
        """Collect events of one reason for some seconds: a drained node loses many pods, one after the other."""
        key = (state.key, reason)
        if key not in self._combined:
            self._combined[key] = _Combined(state, type, [])
            asyncio.get_running_loop().call_later(COMBINE_SECONDS, self._release, key)
        self._combined[key].add(message)

    def _release(self, key: tuple[QueueKey, str]) -> None:
        combined = self._combined.pop(key, None)
        if combined is not None:
            message = "; ".join(combined.messages)
            self._emit(combined.state, combined.type, key[1], message, message[:_MESSAGE_LIMIT])

    async def run(self) -> None:
        while True:
            await self._write(await self._queue.get())

    async def drain(self) -> None:
        """Write the queued events before a graceful stop."""
        for key in list(self._combined):
            self._release(key)
        while not self._queue.empty():
            await self._write(self._queue.get_nowait())

    async def _write(self, event: Document) -> None:
        try:
            await self._client.create(_EVENTS, event, event["metadata"]["namespace"])
        except LeaseLost:
            raise
        except KubeError as error:
            log.debug("event not written: %s", error)

    def _event(self, state: JobState, type: str, reason: str, message: str, now: float) -> Document:
        assert state.resource is not None
        meta = state.resource.metadata
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return EVENTS.manifest(
            f"{meta.name}.{time.time_ns():x}{next(self._number) % 256:02x}",
            meta.namespace,
            involvedObject={
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            type=type,
            reason=reason,
            message=message if len(message) <= _MESSAGE_LIMIT else message[:_MESSAGE_LIMIT] + "…",
            source={"component": COMPONENT},
            reportingComponent=COMPONENT,
            reportingInstance=self._identity[:128],
            firstTimestamp=at,
            lastTimestamp=at,
            count=1,
        )
