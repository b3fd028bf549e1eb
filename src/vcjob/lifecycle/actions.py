"""The actions of policies, Commands and verbs: contract's table of phases, one function per kind of action.

An action only writes down what is to be. The pods that have to go for it follow from the status: those of
an earlier attempt, and in a phase that keeps nothing alive, those that still live.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext, EventType
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.status import FINAL, MAX_RETRY_REACHED, Culprit, Phase, Run
from vcjob.lifecycle.tally import renewed
from vcjob.wellknown import reasons

ABORT, RESTART, RESTART_TASK, RESTART_POD = "AbortJob", "RestartJob", "RestartTask", "RestartPod"
RESTART_PARTITION, TERMINATE, COMPLETE, RESUME = (
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)

#: What needs a task or a pod to act on, so that a Command cannot ask for it.
TARGETED = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
ACTIONS = TARGETED | {ABORT, RESTART, TERMINATE, COMPLETE, RESUME}

_ENDINGS = {TERMINATE: Phase.TERMINATING, COMPLETE: Phase.COMPLETING}
_SUSPENDED = frozenset({Phase.ABORTING, Phase.ABORTED})


class Cause(msgspec.Struct, frozen=True):
    """Why an action is carried out, and what it is about."""

    #: Who asks: "policy", "command" or "spec".
    source: str
    reason: str
    message: str
    task: str = ""
    indexes: IndexSet = EMPTY
    culprit: Culprit | None = None

    @property
    def told_as(self) -> str:
        """The reason of the event: what a policy or a Command does goes by Volcano's word, which tools look for."""
        return "" if self.source == "spec" else reasons.EXECUTE_ACTION


def act(turn: DecisionContext, action: str, cause: Cause) -> bool:
    """Carry out `action`; False where the phase has no place for it, and nothing is changed then."""
    if turn.phase in FINAL or action not in ACTIONS:
        return False
    if action == RESUME:
        return _resume(turn, cause)
    if action == ABORT:
        return _abort(turn, cause)
    if action in _ENDINGS:
        return _finish(turn, _ENDINGS[action], cause)
    return _restart(turn, action, cause)


def fail(turn: DecisionContext, reason: str, message: str, culprit: Culprit | None = None) -> None:
    """The job fails now; its finished pods stay."""
    turn.end(Phase.FAILED, reason, message, culprit)


def _abort(turn: DecisionContext, cause: Cause) -> bool:
    if turn.phase in _SUSPENDED and cause.source == "spec" and turn.status.suspended_by != "spec":
        # From now on spec.suspend alone resumes it.
        turn.set(suspended_by="spec")
        return True
    if turn.phase not in ACTIVE:
        return False
    turn.set(
        version=turn.status.version + 1,
        suspended_by=cause.source,
        restarting=None,
        holding={},
        culprit=cause.culprit,
    )
    turn.go(Phase.ABORTING, cause.reason, cause.message, told_as=cause.told_as)
    return True


def _finish(turn: DecisionContext, phase: Phase, cause: Cause) -> bool:
    if turn.phase not in ACTIVE and turn.phase not in _SUSPENDED:
        return False
    kill = 1 if turn.phase in ACTIVE else 0
    turn.set(
        version=turn.status.version + kill,
        suspended_by="",
        restarting=None,
        holding={},
        culprit=cause.culprit,
    )
    turn.go(phase, cause.reason, cause.message, told_as=cause.told_as)
    return True


def _resume(turn: DecisionContext, cause: Cause) -> bool:
    if turn.phase not in _SUSPENDED or (turn.rules.suspend and cause.source != "spec"):
        return False
    # What succeeded is not run again; what made the job abort must not abort it once more.
    turn.remember(
        {
            name: renewed(tally.memory, turn.rules.tasks[name].every_index - tally.succeeded)
            for name, tally in turn.tallies.items()
        }
    )
    held = tuple(event for event in held_events(turn) if event not in turn.status.handled)
    turn.set(
        handled=turn.status.handled + held,
        suspended_by="",
        ready_tasks=(),
        shape=turn.rules.shape,
        started=turn.now,
        finished=None,
        running_duration=None,
        culprit=None,
        restarting=_run(turn, RESUME, cause),
    )
    turn.record(_run(turn, RESUME, cause))
    turn.go(Phase.RESTARTING, cause.reason, cause.message, told_as=cause.told_as)
    return True


def _restart(turn: DecisionContext, action: str, cause: Cause) -> bool:
    """One run more, if there is one left. Otherwise the pods that ended stay, so that their logs do."""
    whole = action == RESTART or not cause.task
    under_way = turn.status.restarting
    restarts_whole = under_way is not None and not under_way.task
    if turn.phase not in ACTIVE or (turn.phase is Phase.RESTARTING and (restarts_whole or not whole)):
        return False
    retry = turn.status.retry_count + 1
    turn.set(retry_count=retry, culprit=cause.culprit)
    if retry < turn.rules.max_runs:
        if whole:
            _renew_all(turn)
        else:
            _renew_target(turn, action, cause)
        run = _run(turn, action, cause)
        turn.set(restarting=run)
        turn.record(run)
    kind: EventType = "Warning" if cause.culprit else "Normal"
    turn.go(Phase.RESTARTING, cause.reason, cause.message, kind, cause.told_as)
    fail_if_out_of_runs(turn)
    return True


def fail_if_out_of_runs(turn: DecisionContext) -> bool:
    if turn.status.retry_count < turn.rules.max_runs:
        return False
    message = f"{turn.status.state.message}; all runs are used up (maxRetry {turn.rules.max_runs})"
    fail(turn, MAX_RETRY_REACHED, message, turn.status.culprit)
    return True


def _renew_all(turn: DecisionContext) -> None:
    turn.remember(
        {
            name: renewed(tally.memory, turn.rules.tasks[name].every_index)
            for name, tally in turn.tallies.items()
        }
    )
    turn.set(version=turn.status.version + 1, ready_tasks=(), handled=(), holding={}, shape=turn.rules.shape)


def _renew_target(turn: DecisionContext, action: str, cause: Cause) -> None:
    turn.remember({cause.task: renewed(turn.tallies[cause.task].memory, target(turn, action, cause))})
    fired = (f"TaskCompleted/{cause.task}", f"TaskFailed/{cause.task}")
    turn.set(handled=tuple(event for event in turn.status.handled if event not in fired))


def target(turn: DecisionContext, action: str, cause: Cause) -> IndexSet:
    """The indexes that the action is about; an event of the whole task is about all of it."""
    task = turn.rules.tasks[cause.task]
    if action == RESTART_TASK or not cause.indexes:
        return task.every_index
    if action == RESTART_POD:
        return cause.indexes
    found = EMPTY
    for index in cause.indexes:
        if index not in found:
            found |= task.partition(index)
    return found


def held_events(turn: DecisionContext) -> list[str]:
    """The events of whole tasks that hold now, handled or not."""
    held = []
    for name, tally in turn.tallies.items():
        task = turn.rules.tasks[name]
        if task.replicas and len(tally.succeeded) >= task.replicas:
            held.append(f"TaskCompleted/{name}")
        if tally.restarts >= task.max_restarts:
            held.append(f"TaskFailed/{name}")
    return held


def _run(turn: DecisionContext, action: str, cause: Cause) -> Run:
    whole = action in (RESTART, RESUME) or not cause.task
    return Run(
        at=turn.now,
        action=action,
        reason=cause.reason,
        message=cause.message,
        version=turn.status.version,
        retry=turn.status.retry_count,
        task="" if whole else cause.task,
        indexes="" if whole else str(target(turn, action, cause)),
        culprit=cause.culprit,
    )
