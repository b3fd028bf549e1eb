"""What the events that hold now lead to: the action of a policy, or the default where no policy matches.

`apply_policies` is one part of a pass of `decide`. It executes at most one action, because an action changes what
the pods mean. Restarts of parts of tasks that are due together are one action, and pods that are gone are replaced
together, however many tasks they belong to.
"""

from __future__ import annotations

from vcjob.lifecycle.actions import RESUME, TARGETED, execute, fail, restart_parts
from vcjob.lifecycle.culprits import culprit_of
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.descriptions import describe, join_names
from vcjob.lifecycle.due_actions import cause_of, parts_due
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.policies import (
    JOB_UPDATED,
    POD_EVICTED,
    POD_FAILED,
    TASK_COMPLETED,
    TASK_FAILED,
    PolicyEvent,
)
from vcjob.lifecycle.policy_events import policy_events
from vcjob.lifecycle.status import HistoryEntry, Phase
from vcjob.lifecycle.task_state import replace_lost
from vcjob.wellknown import reasons

_REACTING = frozenset({Phase.PENDING, Phase.RUNNING})
#: Events that no pod shows, so that the status must keep since when they hold.
_WITHOUT_POD = frozenset({TASK_COMPLETED, TASK_FAILED, JOB_UPDATED})


def apply_policies(context: DecisionContext) -> None:
    """Execute the first action that is due, and record the events whose policy waits for its timeout."""
    if context.phase not in _REACTING:
        return
    holding: dict[str, float] = {}
    replaced = _Replacements(context)
    events = policy_events(context)
    for place, event in enumerate(events):
        match = context.rules.match_policy(event)
        if match is None:
            _apply_default(context, event, replaced)
        elif match.policy.action == RESUME:
            # The Job is not suspended, so there is nothing to do.
            replaced.add(event)
            _accept_new_shape(context, event)
        elif match.due > context.now:
            context.wake_by(match.due)
            context.policy_is_waiting = True
            if event.name in _WITHOUT_POD or event.index is None:
                holding[event.key] = event.since
            replaced.add(event, noted=True)
        else:
            replaced.save()
            _accept_new_shape(context, event)
            if event.task and match.policy.action in TARGETED:
                restart_parts(context, parts_due(context, [*events[place:], *events[:place]]))
            else:
                execute(context, match.policy.action or "", cause_of(context, event, match))
        if context.changed:
            break
    else:
        context.update(holding=holding)
    replaced.save()


class _Replacements:
    """Pods that are gone and get a next attempt, of all tasks; saved together, with one event."""

    def __init__(self, context: DecisionContext) -> None:
        self._context = context
        #: By task: the pods that are gone, and those of them for which a policy waits.
        self._lost: dict[str, tuple[IndexSet, IndexSet]] = {}

    def add(self, event: PolicyEvent, noted: bool = False) -> None:
        """Replace the lost pods of an event. `noted`: a policy waits to see whether they run again."""
        if event.name != POD_EVICTED:
            return
        state = self._context.tasks[event.task]
        lost = event.indexes & state.lost
        if lost:
            state.lost -= lost
            gone, awaited = self._lost.get(event.task, (EMPTY, EMPTY))
            self._lost[event.task] = gone | lost, awaited | lost if noted else awaited

    def save(self) -> None:
        """Start the next attempts: once for each task, because each start visits all attempts of the task."""
        if not self._lost:
            return
        context, memories, pods = self._context, {}, []
        for task, (gone, awaited) in self._lost.items():
            memory = replace_lost(context.status.memory(task), gone - awaited, None)
            memories[task] = replace_lost(memory, awaited, context.now)
            pods.append(f"{task}-[{gone.summary()}]")
            context.add_history(
                HistoryEntry(
                    at=context.now,
                    action="ReplacePod",
                    reason=POD_EVICTED,
                    message=f"pods {pods[-1]} are gone and are replaced",
                    version=context.status.version,
                    retry=context.status.retry_count,
                    task=task,
                    indexes=gone.summary(),
                )
            )
        context.save_tasks(memories)
        context.emit("Warning", POD_EVICTED, f"pods {join_names(pods)} are gone and are replaced")
        context.changed = True
        self._lost = {}


def _apply_default(context: DecisionContext, event: PolicyEvent, replaced: _Replacements) -> None:
    """No policy matches: lost pods are replaced, and a rank that has failed for good fails the Job."""
    _accept_new_shape(context, event)
    if event.name == POD_EVICTED and event.index is not None:
        pod = context.observed.pod(event.task, event.index, event.attempt)
        if pod is None:
            replaced.add(event)
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


def _accept_new_shape(context: DecisionContext, event: PolicyEvent) -> None:
    if event.name == JOB_UPDATED:
        context.update(shape=context.rules.shape)
