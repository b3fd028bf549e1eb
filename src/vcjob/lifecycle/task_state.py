"""The state of one task: its observed pods, interpreted with the status.

`DecisionContext` makes one for each task in each pass. Pure set algebra on indexes; it knows no policies or phases.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec

from vcjob.lifecycle.attempts import FIRST_ATTEMPT
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.observed import Group
from vcjob.lifecycle.status import Eviction, TaskMemory

#: Entries of `TaskMemory.evictions` up to which each keeps a time of its own.
EVICTIONS_KEPT = 100


class TaskState:
    """The pods of one task. Sets refer to the current attempt unless they say otherwise.

    Computed once for each decision, from what is observed and what the status has recorded; everything in a decision
    that asks about pods reads it.
    """

    __slots__ = (
        "failed", "groups", "live", "lost", "memory", "occupied", "pending", "present", "ready",
        "restarts", "running", "succeeded", "terminating", "unknown", "wait_timed_out",
    )  # fmt: skip

    def __init__(self, memory: TaskMemory, observed: dict[int, Group], replicas: int, active: bool) -> None:
        """`active`: pods may still be created, so pods that are gone are lost, and those beyond `replicas` left over."""
        memory = _adopted(memory, observed)
        if active:
            memory = _scaled_down(memory, observed, replicas)
        self.present = self.pending = self.running = self.ready = self.unknown = EMPTY
        self.wait_timed_out = EMPTY
        #: Indexes that have a pod of any attempt.
        self.occupied = EMPTY
        #: The number of pods of any attempt that are terminating or to be deleted.
        self.terminating = 0
        #: Whether a pod of any attempt has not ended or is terminating.
        self.live = False
        self.restarts = 0
        #: The groups that hold current pods, each with the indexes that are current in it.
        self.groups: list[tuple[int, Group, IndexSet]] = []
        succeeded, failed = memory.succeeded, EMPTY
        for attempt, group in observed.items():
            current = memory.attempts.on(attempt, group.present)
            self.occupied |= group.present
            self.terminating += len(group.terminating | (group.present - current))
            self.live |= group.present != (group.succeeded | group.failed) - group.terminating
            if not current:
                continue
            self.groups.append((attempt, group, current))
            self.present |= current
            if active:
                self.pending |= group.pending & current
                self.running |= group.running & current
                self.ready |= group.ready & current
                self.unknown |= group.unknown & current
                self.wait_timed_out |= group.wait_timed_out & current
            else:  # pods that still run are to be deleted
                self.terminating += len(current - group.succeeded - group.failed - group.terminating)
            succeeded |= group.succeeded & current
            failed |= (group.failed - group.terminating) & current
            counted = current - memory.kept
            self.restarts += sum(times * len(held & counted) for times, held in group.restarts.items())
        if not active:
            failed |= memory.failed
        # A recorded success is final: a pod that reports a failure after it is not evaluated again.
        self.succeeded, self.failed = succeeded, failed - succeeded
        seen = memory.seen | self.present
        self.lost = seen - self.present - succeeded - failed if active else EMPTY
        self.memory = _changed(
            memory,
            seen=seen,
            succeeded=succeeded,
            failed=failed,
            evictions=without_indexes(memory.evictions, self.running | succeeded),
        )

    @property
    def uneventful(self) -> bool:
        """Whether no pod has existed yet in this attempt: nothing can have happened to the task."""
        return not (self.groups or self.memory.seen or self.memory.evictions or self.succeeded)

    @property
    def has_started(self) -> bool:
        """Whether a pod has existed since the latest restart or resume. Also true of a task whose pods another controller created,
        or whose status was lost."""
        return bool(self.memory.seen - self.memory.kept)

    def exhausted(self, limit: int) -> IndexSet:
        """The pods whose containers restarted `limit` times or more, and that have not succeeded."""
        found = EMPTY
        for _, group, current in self.groups:
            for times, held in group.restarts.items():
                if times >= limit:
                    found |= held & current
        return found - self.succeeded

    def available(self) -> int:
        """The number of pods that count for tasks that depend on this one."""
        return len(self.ready | self.succeeded)

    def counts(self) -> dict[str, int]:
        by_phase = {
            "Pending": self.pending, "Running": self.running, "Succeeded": self.succeeded,
            "Failed": self.failed, "Unknown": self.unknown,
        }  # fmt: skip
        return {phase: len(indexes) for phase, indexes in by_phase.items() if indexes}


def without_indexes(evictions: tuple[Eviction, ...], indexes: IndexSet) -> tuple[Eviction, ...]:
    if not evictions:
        return evictions
    left = (Eviction(eviction.at, eviction.indexes - indexes) for eviction in evictions)
    return tuple(eviction for eviction in left if eviction.indexes)


def replace_lost(memory: TaskMemory, lost: IndexSet, noted_at: float | None) -> TaskMemory:
    """Start the next attempt of `lost`; with `noted_at`, a policy waits to see whether the replacements run."""
    if not lost:
        return memory
    kept = memory.evictions
    memory = next_attempt(memory, lost)
    if noted_at is None:
        return memory
    for eviction in kept:
        lost -= eviction.indexes
    return _changed(memory, evictions=bounded((*kept, Eviction(noted_at, lost))) if lost else kept)


def bounded(evictions: tuple[Eviction, ...]) -> tuple[Eviction, ...]:
    """At most EVICTIONS_KEPT: those nearest to each other in time become one, of the earliest time, because each is an event
    in each decision. A policy then acts on the later ones as early as on the first of them."""
    excess = len(evictions) - EVICTIONS_KEPT
    if excess <= 0:
        return evictions
    ordered = sorted(evictions, key=lambda eviction: eviction.at)
    gaps = [later.at - earlier.at for earlier, later in pairwise(ordered)]
    joined = frozenset(sorted(range(len(gaps)), key=gaps.__getitem__)[:excess])
    found = [ordered[0]]
    for number, eviction in enumerate(ordered[1:]):
        if number in joined:
            found[-1] = Eviction(found[-1].at, found[-1].indexes | eviction.indexes)
        else:
            found.append(eviction)
    return tuple(found)


def next_attempt(memory: TaskMemory, indexes: IndexSet) -> TaskMemory:
    """Start the next attempt of these indexes: their present pods are left over from now on."""
    return _forgotten(_changed(memory, attempts=memory.attempts.advanced(indexes)), indexes)


def mark_begun(memory: TaskMemory, indexes: IndexSet) -> TaskMemory:
    """Record that the pods of `indexes` may be created from now on."""
    return _changed(memory, begun=indexes)


def _adopted(memory: TaskMemory, observed: dict[int, Group]) -> TaskMemory:
    """A pod of a higher attempt than the status has recorded is the current one: the status was restored or lost."""
    if not memory.attempts.groups and observed.keys() <= {FIRST_ATTEMPT}:
        return memory
    seen = {attempt: group.present for attempt, group in observed.items()}
    attempts, behind = memory.attempts.adopted(seen)
    return _forgotten(_changed(memory, attempts=attempts), behind) if behind else memory


def _scaled_down(memory: TaskMemory, observed: dict[int, Group], replicas: int) -> TaskMemory:
    beyond = memory.seen
    for attempt, group in observed.items():
        beyond |= memory.attempts.on(attempt, group.present)
    beyond -= IndexSet.span(0, replicas)
    return next_attempt(memory, beyond) if beyond else memory


def _forgotten(memory: TaskMemory, indexes: IndexSet) -> TaskMemory:
    return _changed(
        memory,
        begun=memory.begun - indexes,
        seen=memory.seen - indexes,
        succeeded=memory.succeeded - indexes,
        failed=memory.failed - indexes,
        kept=memory.kept - indexes,
        evictions=without_indexes(memory.evictions, indexes),
    )


def _changed(memory: TaskMemory, **changes: object) -> TaskMemory:
    """The same object where nothing changes, so that an unchanged status is not written again."""
    for name, value in changes.items():
        if getattr(memory, name) != value:
            return msgspec.structs.replace(memory, **changes)
    return memory
