"""The steps that the status and the pods ask for. They are the same for as long as both are."""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.status import FINAL, Phase
from vcjob.lifecycle.step import CreatePods, DeleteCommand, DeleteJob, FailPods, KillPods, Step, UpdateGang

#: Phases in which pods are made.
CREATING = frozenset({Phase.PENDING, Phase.RUNNING})


def steps(turn: DecisionContext) -> tuple[Step, ...]:
    found: list[Step] = [DeleteCommand(uid) for uid in turn.observed.commands if uid in turn.status.commands]
    if turn.phase in ACTIVE:
        found += _gang(turn)
    found += _kills(turn)
    if turn.phase in ACTIVE:
        found += _failures(turn)
    if turn.phase in CREATING and turn.observed.held is None:
        found += _creations(turn)
    found += turn.events
    found += _delete_job(turn)
    return tuple(found)


def missing(turn: DecisionContext, name: str) -> IndexSet:
    """The indexes of this task whose pod is to be created now: no pod of an earlier attempt is in the way."""
    if name not in turn.status.ready_tasks:
        return EMPTY
    tally = turn.tallies[name]
    return turn.rules.tasks[name].every_index - tally.occupied - tally.memory.seen


def _gang(turn: DecisionContext) -> Iterator[Step]:
    counted = turn.observed.gang_tasks
    if counted is not None and set(counted) != set(turn.status.ready_tasks):
        yield UpdateGang(turn.status.ready_tasks)


def _kills(turn: DecisionContext) -> Iterator[Step]:
    """Pods of an earlier attempt always go; where the job is ending or over, so does all that still lives."""
    keep_alive = turn.phase in ACTIVE
    for name, groups in turn.observed.groups.items():
        attempts = turn.tallies[name].memory.attempts if name in turn.tallies else None
        for attempt, group in groups.items():
            current = attempts.on(attempt, group.present) if attempts else EMPTY
            left_over = group.present - current - group.terminating
            if left_over:
                yield KillPods(name, left_over, attempt, "Replaced")
            if not keep_alive:
                living = current - group.succeeded - group.failed - group.terminating
                if living:
                    yield KillPods(name, living, attempt, str(turn.phase))


def _failures(turn: DecisionContext) -> Iterator[Step]:
    for name, tally in turn.tallies.items():
        for attempt, indexes in tally.memory.attempts.split(tally.wait_timed_out):
            yield FailPods(
                name, indexes, attempt, "wait-for-master gave up, and its pod would start it again"
            )


def _creations(turn: DecisionContext) -> Iterator[Step]:
    status = turn.status
    for name, tally in turn.tallies.items():
        for attempt, indexes in tally.memory.attempts.split(missing(turn, name)):
            yield CreatePods(name, indexes, attempt, status.version, status.retry_count)


def _delete_job(turn: DecisionContext) -> Iterator[Step]:
    """A job that its own spec suspends waits for its owner, however long."""
    status, ttl = turn.status, turn.rules.ttl
    ended = turn.phase in FINAL or (turn.phase is Phase.ABORTED and status.suspended_by != "spec")
    if not ended or ttl is None or status.finished is None:
        return
    due = status.finished + ttl
    if turn.now >= due:
        yield DeleteJob()
    else:
        turn.wake(due)
