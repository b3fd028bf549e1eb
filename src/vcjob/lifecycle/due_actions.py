"""Why the policy of an event acts, and which pods restart with it.

The pods of one crash end with different exit codes, in several tasks and within moments of each other, and each of
these is an event of its own. The restarts that they lead to are one restart, or a crash would use up `maxRetry`.
"""

from __future__ import annotations

from collections.abc import Iterable

from vcjob.lifecycle.actions import RESTART_POD, RESTART_TASK, TARGETED, Cause, Part
from vcjob.lifecycle.culprits import culprit_of
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.descriptions import describe
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.policies import TASK_COMPLETED, TASK_FAILED, UNKNOWN, PolicyEvent, PolicyMatch
from vcjob.lifecycle.rules import TaskRules

#: What is due this part of its timeout later is due together with the others, but at most so many seconds later.
TOGETHER, TOGETHER_SECONDS = 0.1, 60.0


def cause_of(context: DecisionContext, event: PolicyEvent, match: PolicyMatch) -> Cause:
    policy, index = match.policy, event.index
    culprit = None if index is None else culprit_of(context, event.name, event.task, index)
    if culprit is not None:
        what = describe(culprit)
    elif event.name == TASK_COMPLETED:
        what = f"all pods of task {event.task} succeeded"
    elif event.name == TASK_FAILED:
        restarts = context.tasks[event.task].restarts
        what = f"the pods of task {event.task} restarted their containers {restarts} times"
    elif event.name == UNKNOWN:
        what = "a part of the gang runs, and the scheduler finds no place for the rest"
    else:
        what = "the replicas or minAvailable of the job changed"
    late = f" after {policy.timeout}" if policy.timeout else ""
    return Cause(
        source="policy",
        reason=event.name,
        message=f"{what}; policy of {match.owner}: {policy.action}{late}",
        task=event.task,
        culprit=culprit,
    )


def parts_due(context: DecisionContext, events: Iterable[PolicyEvent]) -> list[Part]:
    """What restarts together of the tasks of `events`: a part for each task, that of the first event first."""
    first: dict[str, tuple[str, Cause]] = {}
    due: dict[tuple[str, str], IndexSet] = {}
    for event in events:
        match = context.rules.match_policy(event)
        if match is None or not event.task or match.policy.action not in TARGETED:
            continue
        indexes = _due(context, event, match)
        if indexes:
            action = match.policy.action
            due[event.task, action] = due.get((event.task, action), EMPTY) | indexes
            if event.task not in first:
                first[event.task] = action, cause_of(context, event, match)
    restarted = dict.fromkeys(first, EMPTY)
    for (name, action), indexes in due.items():
        restarted[name] |= _target(context.rules.tasks[name], action, indexes)
    return [Part(action, restarted[name], cause) for name, (action, cause) in first.items()]


def _due(context: DecisionContext, event: PolicyEvent, match: PolicyMatch) -> IndexSet:
    """The indexes whose timeout has ended or is about to end: all of the task where its event is about the whole task."""
    every = context.rules.tasks[event.task].every_index if event.index is None else event.indexes
    if match.timeout is None:
        return every
    by = context.now + min(TOGETHER * match.timeout, TOGETHER_SECONDS)
    if match.due > by:
        return EMPTY
    return every if event.times is None else event.times.due(every, match.timeout, by)


def _target(task: TaskRules, action: str, indexes: IndexSet) -> IndexSet:
    """The indexes that an action on these restarts."""
    if action == RESTART_TASK:
        return task.every_index
    return indexes if action == RESTART_POD else task.partitions(indexes)
