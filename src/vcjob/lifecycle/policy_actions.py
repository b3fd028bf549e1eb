"""What the events that hold lead to: an action of a policy, or what happens where none answers."""

from __future__ import annotations

from vcjob.lifecycle.actions import RESUME, Cause, execute, fail
from vcjob.lifecycle.culprits import culprit_of
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.descriptions import describe
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.policies import (
    JOB_UPDATED,
    POD_EVICTED,
    POD_FAILED,
    TASK_COMPLETED,
    TASK_FAILED,
    UNKNOWN,
    PolicyEvent,
    PolicyMatch,
    match_policy,
)
from vcjob.lifecycle.policy_events import policy_events
from vcjob.lifecycle.status import HistoryEntry, Phase
from vcjob.lifecycle.task_state import replace_lost
from vcjob.wellknown import reasons

_REACTING = frozenset({Phase.PENDING, Phase.RUNNING})
#: Events without a pod whose time could be read again after a restart of the caller.
_HELD = frozenset({TASK_COMPLETED, TASK_FAILED, JOB_UPDATED})


def apply_policies(context: DecisionContext) -> None:
    """Carry out the first action that is due; remember what waits for its timeout."""
    if context.phase not in _REACTING:
        return
    holding = {}
    for event in policy_events(context):
        match = match_policy(context.rules, event)
        if match is None:
            _apply_default(context, event)
        elif match.due > context.now:
            context.wake_by(match.due)
            if event.name in _HELD or event.index is None:
                holding[event.key] = event.since
            _replace_lost(context, event, noted=True)
        elif match.policy.action == RESUME:
            # Nothing is suspended: the event is taken as dealt with.
            _replace_lost(context, event)
            _accept_new_shape(context, event)
        else:
            _accept_new_shape(context, event)
            execute(context, match.policy.action or "", _cause(context, event, match))
        if context.changed:
            return
    context.update(holding=holding)


def _apply_default(context: DecisionContext, event: PolicyEvent) -> None:
    """No policy matches: lost pods are replaced, and a rank that has failed for good fails the job."""
    _accept_new_shape(context, event)
    if event.name == POD_EVICTED and event.index is not None:
        pod = context.observed.pod(event.task, event.index, event.attempt)
        if pod is None:
            _replace_lost(context, event)
        elif pod.phase == "Failed" and not pod.terminating:
            _fail_for_rank(context, event, event.index)
    elif event.name == POD_FAILED and event.index is not None:
        _fail_for_rank(context, event, event.index)
    elif event.name == TASK_FAILED:
        exhausted = context.tasks[event.task].exhausted(context.rules.tasks[event.task].max_restarts)
        if exhausted:
            _fail_for_rank(context, event, exhausted.first())


def _fail_for_rank(context: DecisionContext, event: PolicyEvent, index: int) -> None:
    if context.rules.ranks_matter and context.rules.tasks[event.task].rank(index) is not None:
        culprit = culprit_of(context, event.name, event.task, index)
        fail(context, reasons.RANK_FAILED, describe(culprit), culprit)


def _replace_lost(context: DecisionContext, event: PolicyEvent, noted: bool = False) -> None:
    if event.name != POD_EVICTED:
        return
    state = context.tasks[event.task]
    lost: IndexSet = event.indexes & state.lost
    if lost:
        context.save_tasks({event.task: replace_lost(state.memory, lost, context.now if noted else None)})
        context.changed = True
        message = f"pods {event.task}-[{lost}] are gone and get replaced"
        context.add_history(
            HistoryEntry(
                at=context.now,
                action="ReplacePod",
                reason=POD_EVICTED,
                message=message,
                version=context.status.version,
                retry=context.status.retry_count,
                task=event.task,
                indexes=str(lost),
            )
        )
        context.emit("Warning", POD_EVICTED, message)


def _accept_new_shape(context: DecisionContext, event: PolicyEvent) -> None:
    if event.name == JOB_UPDATED:
        context.update(shape=context.rules.shape)


def _cause(context: DecisionContext, event: PolicyEvent, match: PolicyMatch) -> Cause:
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
    if index is None:
        indexes = IndexSet()
    elif policy.timeout:
        # The others may still have time left.
        indexes = IndexSet.of((index,))
    else:
        indexes = event.indexes
    return Cause(
        source="policy",
        reason=event.name,
        message=f"{what}; policy of {match.owner}: {policy.action}{late}",
        task=event.task,
        indexes=indexes,
        culprit=culprit,
    )
