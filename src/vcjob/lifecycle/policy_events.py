"""The events that hold now, read from what the pods show. Nothing is remembered of how they came about."""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.policies import (
    JOB_UPDATED,
    POD_EVICTED,
    POD_FAILED,
    POD_PENDING,
    TASK_COMPLETED,
    TASK_FAILED,
    UNKNOWN,
    Happening,
)
from vcjob.lifecycle.rules import TaskRules
from vcjob.lifecycle.tally import Tally


def happenings(turn: DecisionContext) -> list[Happening]:
    """In the order in which they came about. A task's completion goes before failures of the same second:
    the kubelet's times have no finer grain, and ranks often die because another one ended well."""
    found = [
        event for name, task in turn.rules.tasks.items() for event in _of_task(turn, task, turn.tallies[name])
    ]
    if turn.observed.gang_broken and any(tally.running for tally in turn.tallies.values()):
        # Only of pods that run: right after a restart the word is still about those of the run before.
        found.append(Happening(_held_since(turn, f"{UNKNOWN}/"), UNKNOWN))
    if turn.status.shape != turn.rules.shape:
        found.append(Happening(_held_since(turn, f"{JOB_UPDATED}/"), JOB_UPDATED))
    found.sort(key=lambda event: (int(event.since), event.event != TASK_COMPLETED, event.since))
    return found


def _of_task(turn: DecisionContext, task: TaskRules, tally: Tally) -> Iterator[Happening]:
    yield from _failed(task, tally)
    yield from _evicted(turn, task, tally)
    for attempt, group, current in tally.groups:
        for event, earliest in ((POD_PENDING, group.pendings), (UNKNOWN, group.unknowns)):
            alike = earliest.indexes & current
            first = earliest.first(alike)
            if first:
                yield Happening(first[0], event, task.name, first[1], attempt, alike)
    if task.replicas and len(tally.succeeded) >= task.replicas:
        at = max((group.last_success for _, group, _ in tally.groups), default=0.0)
        key = f"{TASK_COMPLETED}/{task.name}"
        if key not in turn.status.handled:
            yield Happening(turn.status.holding.get(key, at or turn.now), TASK_COMPLETED, task.name)
    if tally.restarts >= task.max_restarts:
        key = f"{TASK_FAILED}/{task.name}"
        if key not in turn.status.handled:
            yield Happening(_held_since(turn, key), TASK_FAILED, task.name)


def _failed(task: TaskRules, tally: Tally) -> Iterator[Happening]:
    for attempt, group, current in tally.groups:
        for exit_code, earliest in group.failures.items():
            alike = (earliest.indexes & current) - tally.succeeded
            first = earliest.first(alike)
            if first:
                yield Happening(first[0], POD_FAILED, task.name, first[1], attempt, alike, exit_code)


def _evicted(turn: DecisionContext, task: TaskRules, tally: Tally) -> Iterator[Happening]:
    """Those that stay as failed, those that are going, those that are gone, and those not back yet."""
    for attempt, group, current in tally.groups:
        evicted = (group.evicted & current) - tally.succeeded
        going = evicted & group.terminating
        for alike in (evicted - going, going):
            first = group.evictions.first(alike)
            if first:
                yield Happening(first[0], POD_EVICTED, task.name, first[1], attempt, alike)
    for attempt, lost in tally.memory.attempts.split(tally.lost):
        yield Happening(turn.now, POD_EVICTED, task.name, lost.first(), attempt, lost)
    for eviction in tally.memory.evictions:
        index = eviction.indexes.first()
        attempt = tally.memory.attempts.of(index)
        yield Happening(eviction.at, POD_EVICTED, task.name, index, attempt, eviction.indexes)


def _held_since(turn: DecisionContext, key: str) -> float:
    return turn.status.holding.get(key, turn.now)
