"""What the events that hold lead to: an action of a policy, or what happens where none answers."""

from __future__ import annotations

from vcjob.lifecycle.actions import RESUME, Cause, act, fail
from vcjob.lifecycle.culprits import culprit_of
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.policies import (
    JOB_UPDATED,
    POD_EVICTED,
    POD_FAILED,
    TASK_COMPLETED,
    TASK_FAILED,
    UNKNOWN,
    Answer,
    Happening,
    answer,
)
from vcjob.lifecycle.policy_events import happenings
from vcjob.lifecycle.status import Phase, Run
from vcjob.lifecycle.tally import replaced
from vcjob.lifecycle.wording import what_happened
from vcjob.wellknown import reasons

_REACTING = frozenset({Phase.PENDING, Phase.RUNNING})
#: Events without a pod whose time could be read again after a restart of the caller.
_HELD = frozenset({TASK_COMPLETED, TASK_FAILED, JOB_UPDATED})


def react(turn: DecisionContext) -> None:
    """Carry out the first action that is due; remember what waits for its timeout."""
    if turn.phase not in _REACTING:
        return
    holding = {}
    for happening in happenings(turn):
        reply = answer(turn.rules, happening)
        if reply is None:
            _unanswered(turn, happening)
        elif reply.due > turn.now:
            turn.wake(reply.due)
            if happening.event in _HELD or happening.index is None:
                holding[happening.key] = happening.since
            _replace_lost(turn, happening, noted=True)
        elif reply.policy.action == RESUME:
            # Nothing is suspended: the event is taken as dealt with.
            _replace_lost(turn, happening)
            _take_new_shape(turn, happening)
        else:
            _take_new_shape(turn, happening)
            act(turn, reply.policy.action or "", _cause(turn, happening, reply))
        if turn.moved:
            return
    turn.set(holding=holding)


def _unanswered(turn: DecisionContext, happening: Happening) -> None:
    """No policy matches: lost pods are replaced, and a rank that has failed for good fails the job."""
    _take_new_shape(turn, happening)
    if happening.event == POD_EVICTED and happening.index is not None:
        pod = turn.observed.pod(happening.task, happening.index, happening.attempt)
        if pod is None:
            _replace_lost(turn, happening)
        elif pod.phase == "Failed" and not pod.terminating:
            _fail_for_rank(turn, happening, happening.index)
    elif happening.event == POD_FAILED and happening.index is not None:
        _fail_for_rank(turn, happening, happening.index)
    elif happening.event == TASK_FAILED:
        worn_out = turn.tallies[happening.task].worn_out(turn.rules.tasks[happening.task].max_restarts)
        if worn_out:
            _fail_for_rank(turn, happening, worn_out.first())


def _fail_for_rank(turn: DecisionContext, happening: Happening, index: int) -> None:
    if turn.rules.ranks_matter and turn.rules.tasks[happening.task].rank(index) is not None:
        culprit = culprit_of(turn, happening.event, happening.task, index)
        fail(turn, reasons.RANK_FAILED, what_happened(culprit), culprit)


def _replace_lost(turn: DecisionContext, happening: Happening, noted: bool = False) -> None:
    if happening.event != POD_EVICTED:
        return
    tally = turn.tallies[happening.task]
    lost: IndexSet = happening.alike & tally.lost
    if lost:
        turn.remember({happening.task: replaced(tally.memory, lost, turn.now if noted else None)})
        turn.moved = True
        message = f"pods {happening.task}-[{lost}] are gone and get replaced"
        turn.record(
            Run(
                at=turn.now,
                action="ReplacePod",
                reason=POD_EVICTED,
                message=message,
                version=turn.status.version,
                retry=turn.status.retry_count,
                task=happening.task,
                indexes=str(lost),
            )
        )
        turn.emit("Warning", POD_EVICTED, message)


def _take_new_shape(turn: DecisionContext, happening: Happening) -> None:
    if happening.event == JOB_UPDATED:
        turn.set(shape=turn.rules.shape)


def _cause(turn: DecisionContext, happening: Happening, reply: Answer) -> Cause:
    policy, index = reply.policy, happening.index
    culprit = None if index is None else culprit_of(turn, happening.event, happening.task, index)
    if culprit is not None:
        what = what_happened(culprit)
    elif happening.event == TASK_COMPLETED:
        what = f"all pods of task {happening.task} succeeded"
    elif happening.event == TASK_FAILED:
        restarts = turn.tallies[happening.task].restarts
        what = f"the pods of task {happening.task} restarted their containers {restarts} times"
    elif happening.event == UNKNOWN:
        what = "a part of the gang runs, and the scheduler finds no place for the rest"
    else:
        what = "the replicas or minAvailable of the job changed"
    late = f" after {policy.timeout}" if policy.timeout else ""
    if index is None:
        alike = IndexSet()
    elif policy.timeout:
        # The others may still have time left.
        alike = IndexSet.of((index,))
    else:
        alike = happening.alike
    return Cause(
        source="policy",
        reason=happening.event,
        message=f"{what}; policy of {reply.owner}: {policy.action}{late}",
        task=happening.task,
        indexes=alike,
        culprit=culprit,
    )
