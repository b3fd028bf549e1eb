"""Which changes of a status matter: pure comparisons of two statuses, used by `StatusWriter`.

Counters and messages may be lost, because the pods still show them; every other difference is written at once. It
sends no request and keeps nothing.
"""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter

import msgspec

from vcjob.lifecycle.status import REJECTED, Condition, HistoryEntry, Phase, State, Status
from vcjob.wellknown import reasons

#: Counters: losing the latest of them costs nothing, because the pods still show it.
_COUNTERS = frozenset(
    {"state", "tasks", "task_counts", "pending", "running", "succeeded", "failed", "terminating", "unknown",
     "min_available"}
)  # fmt: skip
_beyond_pending = attrgetter("running", "succeeded", "failed", "terminating", "unknown", "min_available")
_not_counters = attrgetter(*(name for name in Status.__struct_fields__ if name not in _COUNTERS))


def is_urgent(old: Status, new: Status) -> bool:
    """Whether `new` differs in more than counters and messages."""
    if old.state.phase != new.state.phase or old.state.since != new.state.since:
        return True
    if _not_counters(old) != _not_counters(new):
        return True
    for task, memory in new.tasks.items():
        before = old.memory(task)
        if (
            memory.attempts != before.attempts
            or memory.begun != before.begun
            or len(memory.evictions) > len(before.evictions)
        ):
            return True
    return False


def new_history(old: Status, new: Status) -> list[HistoryEntry]:
    """The entries of the history that `old` does not have. A full history loses its oldest entry with each new one,
    so they are searched from the end."""
    last = old.history[-1] if old.history else None
    return list(takewhile(lambda entry: entry != last, reversed(new.history)))[::-1]


def only_started(first: Status) -> bool:
    """Whether a Job's first status says no more than that it has started. Then it can be batched: the objects that
    are created before the pods tell the next leader the same."""
    return first.phase is Phase.PENDING and not (
        first.version
        or first.retry_count
        or first.history
        or first.commands
        or first.handled
        or first.holding
        or any(memory.attempts.groups or memory.evictions for memory in first.tasks.values())
    )


def only_waits(old: Status, new: Status) -> bool:
    """Whether nothing is new but the number of pods that wait to run."""
    if (old.state.phase, old.state.reason) != (new.state.phase, new.state.reason):
        return False
    return bool(_beyond_pending(old) == _beyond_pending(new))


def rejected_status(status: Status, message: str, now: float) -> Status:
    """The status of a Job that is not run at all."""
    return msgspec.structs.replace(
        status,
        state=State(Phase.FAILED, reasons.INVALID_JOB, message, now),
        conditions=(*status.conditions, Condition(Phase.FAILED, now)),
        finished=now,
        shape=REJECTED,
    )
