"""The status as Kubernetes stores it.

Volcano's fields have Volcano's names. vcjob's own are one JSON string in `status.controlledResources`, which is a
free string map in Volcano's schema too; unknown fields elsewhere would be pruned. Public times have whole seconds,
as in Kubernetes; exact ones are in the JSON string.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from vcjob.lifecycle import index_text
from vcjob.lifecycle.attempts import STORED_LIMIT, Attempts
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import (
    FINAL,
    Condition,
    Culprit,
    Eviction,
    HistoryEntry,
    Phase,
    State,
    Status,
    TaskMemory,
)
from vcjob.lifecycle.task_state import bounded
from vcjob.spec.duration import seconds
from vcjob.wellknown.annotations import LIFECYCLE

#: Bytes that the index sets of one stored status may take in memory. A Job at the limit of pods, with every index
#: on one of a thousand attempts, stays below it; a status that was edited to waste memory does not.
MAX_MEMORY = 32 * 1024 * 1024

_ENDED = FINAL | {Phase.ABORTED}
#: Public counters and their fields in `Status`.
_COUNTERS = {
    "pending": "pending",
    "running": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "terminating": "terminating",
    "unknown": "unknown",
    "version": "version",
    "retryCount": "retry_count",
}


#: Epoch seconds that a timestamp of Kubernetes can express.
_END_OF_TIME = 253_402_300_800
_Time = Annotated[float, msgspec.Meta(ge=0, lt=_END_OF_TIME)]


class _State(msgspec.Struct, rename="camel"):
    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class _Condition(msgspec.Struct, rename="camel"):
    status: Phase
    last_transition_time: str | None = None


class _TaskCounts(msgspec.Struct):
    phase: dict[str, int] | None = None


class _Public(msgspec.Struct, rename="camel"):
    """Volcano's fields. Any of them may be absent or null; one of another type makes the status unreadable."""

    state: _State | None = None
    min_available: int | None = None
    task_status_count: dict[str, _TaskCounts] | None = None
    pending: int | None = None
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    unknown: int | None = None
    version: int | None = None
    retry_count: int | None = None
    running_duration: str | None = None
    conditions: tuple[_Condition, ...] | None = None
    controlled_resources: dict[str, str] | None = None


class _Task(msgspec.Struct, omit_defaults=True):
    attempts: dict[str, str] = {}
    begun: str = ""
    seen: str = ""
    succeeded: str = ""
    failed: str = ""
    kept: str = ""
    evictions: tuple[tuple[_Time, str], ...] = ()


class _Own(msgspec.Struct, omit_defaults=True):
    tasks: dict[str, _Task] = {}
    since: _Time | None = None
    condition_times: tuple[_Time, ...] = ()
    running_duration: float | None = None
    started: _Time | None = None
    running_since: _Time | None = None
    finished: _Time | None = None
    suspended_by: str = ""
    restarting: HistoryEntry | None = None
    culprit: Culprit | None = None
    history: tuple[HistoryEntry, ...] = ()
    commands: tuple[str, ...] = ()
    ready_tasks: tuple[str, ...] = ()
    handled: tuple[str, ...] = ()
    holding: dict[str, _Time] = {}
    shape: str = ""
    spec_digest: str = ""


#: Made at import: msgspec crashes if two threads resolve the fields of a type at the same time.
_OWN = msgspec.json.Decoder(_Own)
msgspec.json.Decoder(_Public)


_SHARED = (
    "running_duration", "started", "running_since", "finished", "suspended_by", "restarting", "culprit",
    "history", "commands", "ready_tasks", "handled", "holding", "shape", "spec_digest",
)  # fmt: skip


def to_kube(status: Status) -> dict[str, Any]:
    write = index_text.writer([indexes for memory in status.tasks.values() for indexes in memory.index_sets])
    own = _Own(
        tasks={name: _task_out(memory, write) for name, memory in status.tasks.items()},
        since=status.state.since,
        condition_times=tuple(condition.at for condition in status.conditions),
        **{name: getattr(status, name) for name in _SHARED},
    )
    state: dict[str, Any] = {"phase": str(status.state.phase)}
    if status.state.reason:
        state["reason"] = status.state.reason
    if status.state.message:
        state["message"] = status.state.message
    if status.state.since is not None:
        state["lastTransitionTime"] = rfc3339(status.state.since)
    document: dict[str, Any] = {
        "state": state,
        "minAvailable": status.min_available,
        "taskStatusCount": {task: {"phase": dict(counts)} for task, counts in status.task_counts.items()},
        **{name: value for name, field in _COUNTERS.items() if (value := getattr(status, field))},
        "conditions": [
            {"status": str(condition.phase), "lastTransitionTime": rfc3339(condition.at)}
            for condition in status.conditions
        ],
        "controlledResources": {
            **status.resources,
            LIFECYCLE: msgspec.json.encode(own, order="deterministic").decode(),
        },
    }
    if status.running_duration is not None:
        document["runningDuration"] = go_duration(status.running_duration)
    return document


def from_kube(document: dict[str, Any]) -> Status:
    if not document:  # a new Job
        return Status()
    public = msgspec.convert(document, _Public)
    resources = dict(public.controlled_resources or {})
    try:
        own = _OWN.decode(resources.pop(LIFECYCLE, "{}"))
    except RecursionError as error:
        raise ValueError(f"{LIFECYCLE} is nested too deeply") from error
    state, conditions = public.state or _State(), public.conditions or ()
    phase = Phase(state.phase or Phase.PENDING)
    since = own.since if own.since is not None else _epoch(state.last_transition_time)
    times = own.condition_times
    if len(times) != len(conditions):
        times = tuple(_epoch(condition.last_transition_time) or 0.0 for condition in conditions)
    fields: dict[str, Any] = {name: getattr(own, name) for name in _SHARED}
    fields |= {field: _counter(getattr(public, field)) for field in _COUNTERS.values()}
    if own.finished is None:
        fields["finished"] = _ended_at(phase, conditions, since)
    if own.running_duration is None and public.running_duration:
        fields["running_duration"] = seconds(public.running_duration)
    return Status(
        state=State(phase, state.reason or "", state.message or "", since),
        min_available=public.min_available or 0,
        task_counts={
            task: dict(counts.phase or {}) for task, counts in (public.task_status_count or {}).items()
        },
        conditions=tuple(
            Condition(condition.status, at) for condition, at in zip(conditions, times, strict=True)
        ),
        tasks=_tasks_in(own.tasks),
        resources=resources,
        **fields,
    )


def public_part(document: dict[str, Any]) -> Status:
    """The status of a document that `from_kube` rejects, without vcjob's own part and, where that is not enough, with its state
    alone: a Job that has ended must not run again because of what only vcjob reads. Never raises."""
    resources = document.get("controlledResources")
    others = dict(resources) if isinstance(resources, dict) else {}
    others.pop(LIFECYCLE, None)
    for part in ({**document, "controlledResources": others}, {"state": document.get("state")}):
        with suppress(ValueError, TypeError, KeyError):
            return from_kube(part)
    return Status()


def _counter(stored: int | None) -> int:
    """A counter that can still grow and be written: the API server takes 32 bits."""
    return min(max(stored or 0, 0), STORED_LIMIT)


def _ended_at(phase: Phase, conditions: tuple[_Condition, ...], since: float | None) -> float | None:
    """When a Job ended that Volcano ran: the time of the condition that says so. Volcano sets the time of the state
    again with every write, so that one is only the second best."""
    if phase not in _ENDED:
        return None
    at = since
    for condition in reversed(conditions):
        if condition.status != phase:
            break
        at = _epoch(condition.last_transition_time) or at
    return at


def rfc3339(epoch: float) -> str:
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def go_duration(seconds: float) -> str:
    """Whole seconds as Go writes a duration: `1h2m3s`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _epoch(text: str | None) -> float | None:
    """The time; None where there is none that can be read, or one that cannot be written again: the API server also takes
    `z` and other ends of a time, an offset can shift it out of the years 1970 to 9999, and Go's zero time is in the year 1."""
    try:
        read = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    epoch = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
    return epoch if 0 <= epoch < _END_OF_TIME else None


def _task_out(memory: TaskMemory, write: Callable[[IndexSet], str]) -> _Task:
    return _Task(
        attempts=memory.attempts.to_json(write),
        begun=write(memory.begun),
        seen=write(memory.seen),
        succeeded=write(memory.succeeded),
        failed=write(memory.failed),
        kept=write(memory.kept),
        evictions=tuple((eviction.at, write(eviction.indexes)) for eviction in memory.evictions),
    )


class _IndexSetReader:
    """Reads the index sets of one status and counts the memory that they take."""

    def __init__(self) -> None:
        self._bits = 0

    def __call__(self, text: str) -> IndexSet:
        indexes = index_text.read(text)
        self._bits += indexes.mask.bit_length()
        if self._bits > 8 * MAX_MEMORY:
            raise ValueError(f"its index sets would take more than {MAX_MEMORY // 2**20} MiB of memory")
        return indexes


def _tasks_in(tasks: dict[str, _Task]) -> dict[str, TaskMemory]:
    read = _IndexSetReader()
    return {
        name: TaskMemory(
            attempts=Attempts.parse(task.attempts, read),
            begun=read(task.begun),
            seen=read(task.seen),
            succeeded=read(task.succeeded),
            failed=read(task.failed),
            kept=read(task.kept),
            evictions=bounded(tuple(Eviction(at, read(text)) for at, text in task.evictions)),
        )
        for name, task in tasks.items()
    }
