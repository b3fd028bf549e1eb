"""Changes of the phase that the pods cause, in the order of the table in docs/semantics.md.

`decide` calls `complete_on_min_success` before the policies and `sync` after them.
"""

from __future__ import annotations

from collections.abc import Callable

from vcjob.lifecycle.actions import fail, fail_if_out_of_runs
from vcjob.lifecycle.culprits import first_failure
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.dependencies import startable_tasks
from vcjob.lifecycle.descriptions import describe, join_names
from vcjob.lifecycle.status import Phase
from vcjob.wellknown import reasons


def complete_on_min_success(context: DecisionContext) -> None:
    """Enough pods succeeded: the Job is complete, whatever happened to the others."""
    wanted = context.rules.min_success
    if context.phase is Phase.RUNNING and context.rules.replicas and wanted is not None:
        succeeded = _total(context, "succeeded")
        if succeeded >= wanted:
            context.end(
                Phase.COMPLETED,
                reasons.MIN_SUCCESS_REACHED,
                f"{succeeded} pods succeeded, minSuccess is {wanted}",
            )


def sync(context: DecisionContext) -> None:
    step = _SYNC.get(context.phase)
    if step is not None:
        step(context)


def _pending(context: DecisionContext) -> None:
    rules = context.rules
    if not rules.replicas:
        return
    up = _total(context, "running") + _total(context, "succeeded") + _total(context, "failed")
    if rules.min_available <= up:
        if context.status.running_since is None:
            context.update(running_since=context.now)
        context.enter_phase(
            Phase.RUNNING,
            reasons.MIN_AVAILABLE_REACHED,
            f"{up} of {rules.replicas} pods are running or have ended",
        )
    else:
        _end_if_stuck(context)


def _running(context: DecisionContext) -> None:
    rules = context.rules
    if not rules.replicas:
        return
    succeeded, failed = _total(context, "succeeded"), _total(context, "failed")
    if succeeded + failed >= rules.replicas:
        if not context.policy_is_waiting:
            _all_finished(context, succeeded)
    elif _total(context, "pending") > rules.replicas - rules.min_available:
        context.enter_phase(
            Phase.PENDING, reasons.TOO_FEW_PODS, f"fewer than {rules.min_available} pods are up"
        )
    else:
        _end_if_stuck(context)


def _all_finished(context: DecisionContext, succeeded: int) -> None:
    rules = context.rules
    needed = sum(task.min_available for task in rules.tasks.values())
    if rules.min_available >= needed:
        for name, task in rules.tasks.items():
            done = len(context.tasks[name].succeeded)
            if done < task.min_available:
                _too_few(context, f"task {name}: {done} pods succeeded, {task.min_available} are needed")
                return
    if rules.min_success is not None:
        # It was not reached, or the job would have ended before.
        _too_few(context, f"{succeeded} pods succeeded, minSuccess is {rules.min_success}")
    elif succeeded >= rules.min_available:
        context.end(Phase.COMPLETED, reasons.SUCCEEDED, f"{succeeded} of {rules.replicas} pods succeeded")
    else:
        _too_few(context, f"{succeeded} pods succeeded, minAvailable is {rules.min_available}")


def _too_few(context: DecisionContext, message: str) -> None:
    culprit = first_failure(context)
    if culprit is not None:
        message = f"{describe(culprit)}; {message}"
    fail(context, reasons.TOO_FEW_SUCCEEDED, message, culprit)


def _end_if_stuck(context: DecisionContext) -> None:
    """Fail the Job if every pod that can exist has ended, and the others depend on tasks that can never be ready."""
    if context.policy_is_waiting:
        return
    states = context.tasks
    waiting = [
        name
        for name, task in context.rules.tasks.items()
        if len(states[name].succeeded | states[name].failed) < task.replicas
    ]
    ready = frozenset(context.status.ready_tasks)
    if waiting and startable_tasks(context.rules.tasks, states, ready).isdisjoint(waiting):
        culprit = first_failure(context)
        why = f"{describe(culprit)}; " if culprit else ""
        message = f"{why}the tasks that {join_names(waiting)} depends on can no longer become available"
        fail(context, reasons.DEPENDENCY_FAILED, message, culprit)


def _restarting(context: DecisionContext) -> None:
    status, rules = context.status, context.rules
    if (
        not fail_if_out_of_runs(context)
        and rules.replicas - _total_terminating(context) >= rules.min_available
    ):
        context.update(restarting=None)
        context.enter_phase(
            Phase.PENDING, "Restarted", f"starting run {status.retry_count + 1} of at most {rules.max_runs}"
        )


def _end_when_no_pod_lives(phase: Phase) -> Callable[[DecisionContext], None]:
    def sync_ending(context: DecisionContext) -> None:
        if not context.live:
            context.end(
                phase, context.status.state.reason, context.status.state.message, context.status.culprit
            )

    return sync_ending


def _total(context: DecisionContext, name: str) -> int:
    return sum([len(getattr(state, name)) for state in context.tasks.values()])


def _total_terminating(context: DecisionContext) -> int:
    return sum(state.terminating for state in context.tasks.values())


_SYNC: dict[Phase, Callable[[DecisionContext], None]] = {
    Phase.PENDING: _pending,
    Phase.RUNNING: _running,
    Phase.RESTARTING: _restarting,
    Phase.ABORTING: _end_when_no_pod_lives(Phase.ABORTED),
    Phase.COMPLETING: _end_when_no_pod_lives(Phase.COMPLETED),
    Phase.TERMINATING: _end_when_no_pod_lives(Phase.TERMINATED),
}
