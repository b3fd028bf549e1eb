"""The events that hold now, computed from the pods and the status.

Level-triggered: it does not matter how or when an event arose, so none is lost while no controller runs.
"""

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
    PolicyEvent,
)
from vcjob.lifecycle.rules import TaskRules
from vcjob.lifecycle.task_state import TaskState


def policy_events(context: DecisionContext) -> list[PolicyEvent]:
    """All events, oldest first. A task's completion comes before failures of the same second: the kubelet's times
    have no finer resolution, and ranks often fail because another one has completed."""
    handled = frozenset(context.status.handled)
    found = [
        event
        for name, task in context.rules.tasks.items()
        if not (state := context.tasks[name]).uneventful
        for event in _of_task(context, task, state, handled)
    ]
    if context.observed.gang_broken and any(state.running for state in context.tasks.values()):
        # Only while pods run: right after a restart the scheduler still reports on the earlier run.
        found.append(PolicyEvent(_held_since(context, f"{UNKNOWN}/"), UNKNOWN))
    if context.status.shape != context.rules.shape:
        found.append(PolicyEvent(_held_since(context, f"{JOB_UPDATED}/"), JOB_UPDATED))
    found.sort(key=lambda event: (int(event.since), event.name != TASK_COMPLETED, event.since))
    return found


def _of_task(
    context: DecisionContext, task: TaskRules, state: TaskState, handled: frozenset[str]
) -> Iterator[PolicyEvent]:
    yield from _failed(task, state)
    yield from _evicted(context, task, state)
    for attempt, group, current in state.groups:
        for event, earliest in ((POD_PENDING, group.pendings), (UNKNOWN, group.unknowns)):
            indexes = earliest.indexes & current
            first = earliest.first(indexes)
            if first:
                yield PolicyEvent(first[0], event, task.name, first[1], attempt, indexes, times=earliest)
    if context.is_completed(task.name):
        at = max((group.last_success for _, group, _ in state.groups), default=0.0)
        key = f"{TASK_COMPLETED}/{task.name}"
        if key not in handled:
            yield PolicyEvent(context.status.holding.get(key, at or context.now), TASK_COMPLETED, task.name)
    if state.restarts >= task.max_restarts:
        yield PolicyEvent(_held_since(context, f"{TASK_FAILED}/{task.name}"), TASK_FAILED, task.name)


def _failed(task: TaskRules, state: TaskState) -> Iterator[PolicyEvent]:
    for attempt, group, current in state.groups:
        for exit_code, earliest in group.failures.items():
            indexes = (earliest.indexes & current) - state.succeeded
            first = earliest.first(indexes)
            if first:
                yield PolicyEvent(
                    first[0], POD_FAILED, task.name, first[1], attempt, indexes, exit_code, earliest
                )


def _evicted(context: DecisionContext, task: TaskRules, state: TaskState) -> Iterator[PolicyEvent]:
    """Evicted pods that exist as failed, that are terminating, that are gone, and whose replacement does not run."""
    for attempt, group, current in state.groups:
        evicted = (group.evicted & current) - state.succeeded
        going = evicted & group.terminating
        for indexes in (evicted - going, going):
            first = group.evictions.first(indexes)
            if first:
                yield PolicyEvent(
                    first[0], POD_EVICTED, task.name, first[1], attempt, indexes, times=group.evictions
                )
    for attempt, lost in state.memory.attempts.split(state.lost):
        yield PolicyEvent(context.now, POD_EVICTED, task.name, lost.first(), attempt, lost)
    for eviction in state.memory.evictions:
        index = eviction.indexes.first()
        attempt = state.memory.attempts.of(index)
        yield PolicyEvent(eviction.at, POD_EVICTED, task.name, index, attempt, eviction.indexes)


def _held_since(context: DecisionContext, key: str) -> float:
    return context.status.holding.get(key, context.now)
