"""The steps that follow from a status and the pods: creations, deletions, failures, events.

`decide` calls `steps` after it has updated the status. The same status and pods give the same steps, so a backend
that was interrupted decides again and continues. Nothing is executed here.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.status import FINAL, Phase
from vcjob.lifecycle.step import CreatePods, DeleteCommand, DeleteJob, FailPods, KillPods, Step

#: Phases in which pods are created.
CREATING = frozenset({Phase.PENDING, Phase.RUNNING})


def steps(context: DecisionContext) -> tuple[Step, ...]:
    commands = context.observed.commands
    found: list[Step] = [DeleteCommand(uid) for uid in context.status.commands if uid in commands]
    found += _kills(context)
    if context.phase in ACTIVE:
        found += _failures(context)
    if context.phase in CREATING and context.observed.held is None:
        found += _creations(context)
    found += context.events
    found += _delete_job(context)
    return tuple(found)


def missing(context: DecisionContext, name: str) -> IndexSet:
    """The indexes of this ready task whose pod is to be created now: no pod of an earlier attempt is in the way."""
    state = context.tasks[name]
    return context.rules.tasks[name].every_index - state.occupied - state.memory.seen


def _kills(context: DecisionContext) -> Iterator[Step]:
    """Pods of an earlier attempt are always deleted; where the Job is ending or over, so are pods that still run."""
    keep_alive = context.phase in ACTIVE
    for name, groups in context.observed.groups.items():
        attempts = context.tasks[name].memory.attempts if name in context.tasks else None
        for attempt, group in groups.items():
            if context.status.never_ran_here:
                current = group.present  # no attempts are recorded
            else:
                current = attempts.on(attempt, group.present) if attempts else EMPTY
            left_over = group.present - current - group.terminating
            if left_over:
                yield KillPods(name, left_over, attempt, "Replaced")
            if not keep_alive:
                living = current - group.succeeded - group.failed - group.terminating
                if living:
                    yield KillPods(name, living, attempt, str(context.phase))


def _failures(context: DecisionContext) -> Iterator[Step]:
    for name, state in context.tasks.items():
        for attempt, indexes in state.memory.attempts.split(state.wait_timed_out):
            yield FailPods(name, indexes, attempt, "wait-for-master timed out, and its pod would restart it")


def _creations(context: DecisionContext) -> Iterator[Step]:
    status = context.status
    for name in status.ready_tasks:
        attempts = context.tasks[name].memory.attempts
        for attempt, indexes in attempts.split(missing(context, name)):
            yield CreatePods(name, indexes, attempt, status.version, status.retry_count)


def _delete_job(context: DecisionContext) -> Iterator[Step]:
    """A Job that its own spec suspends is kept until its owner resumes it."""
    status, ttl = context.status, context.rules.ttl
    ended = context.phase in FINAL or (context.phase is Phase.ABORTED and status.suspended_by != "spec")
    if not ended or ttl is None or status.finished is None:
        return
    due = status.finished + ttl
    if context.now >= due:
        yield DeleteJob()
    else:
        context.wake_by(due)
