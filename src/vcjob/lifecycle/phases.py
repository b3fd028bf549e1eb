"""How a job goes from phase to phase by what its pods do."""

from __future__ import annotations

from collections.abc import Callable

from vcjob.lifecycle.actions import fail, fail_if_out_of_runs
from vcjob.lifecycle.culprits import first_failure
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.tally import can_be_met
from vcjob.lifecycle.wording import what_happened
from vcjob.wellknown import reasons


def succeed_early(turn: DecisionContext) -> None:
    """Enough pods succeeded: what happened to the others does not matter any more."""
    wanted = turn.rules.min_success
    if turn.phase is Phase.RUNNING and turn.rules.replicas and wanted is not None:
        succeeded = _total(turn, "succeeded")
        if succeeded >= wanted:
            turn.end(
                Phase.COMPLETED,
                reasons.MIN_SUCCESS_REACHED,
                f"{succeeded} pods succeeded, minSuccess is {wanted}",
            )


def sync(turn: DecisionContext) -> None:
    step = _SYNC.get(turn.phase)
    if step is not None:
        step(turn)


def _pending(turn: DecisionContext) -> None:
    rules = turn.rules
    if not rules.replicas:
        return
    up = _total(turn, "running") + _total(turn, "succeeded") + _total(turn, "failed")
    if rules.min_available <= up:
        if turn.status.running_since is None:
            turn.set(running_since=turn.now)
        turn.go(Phase.RUNNING, reasons.MIN_AVAILABLE_REACHED, f"{up} of {rules.replicas} pods are up or done")
    else:
        _end_if_stuck(turn)


def _running(turn: DecisionContext) -> None:
    rules = turn.rules
    if not rules.replicas:
        return
    succeeded, failed = _total(turn, "succeeded"), _total(turn, "failed")
    if succeeded + failed >= rules.replicas:
        _all_finished(turn, succeeded)
    elif _total(turn, "pending") > rules.replicas - rules.min_available:
        turn.go(Phase.PENDING, reasons.TOO_FEW_PODS, f"fewer than {rules.min_available} pods are up")
    else:
        _end_if_stuck(turn)


def _all_finished(turn: DecisionContext, succeeded: int) -> None:
    rules = turn.rules
    needed = sum(task.min_available for task in rules.tasks.values())
    if rules.min_available >= needed:
        for name, task in rules.tasks.items():
            done = len(turn.tallies[name].succeeded)
            if done < task.min_available:
                _too_few(turn, f"task {name}: {done} pods succeeded, {task.min_available} are needed")
                return
    if rules.min_success is not None:
        # It was not reached, or the job would have ended before.
        _too_few(turn, f"{succeeded} pods succeeded, minSuccess is {rules.min_success}")
    elif succeeded >= rules.min_available:
        turn.end(Phase.COMPLETED, reasons.SUCCEEDED, f"{succeeded} of {rules.replicas} pods succeeded")
    else:
        _too_few(turn, f"{succeeded} pods succeeded, minAvailable is {rules.min_available}")


def _too_few(turn: DecisionContext, message: str) -> None:
    culprit = first_failure(turn)
    if culprit is not None:
        message = f"{what_happened(culprit)}; {message}"
    fail(turn, reasons.TOO_FEW_SUCCEEDED, message, culprit)


def _end_if_stuck(turn: DecisionContext) -> None:
    """Every pod that can come has ended, and the rest waits for tasks that can no longer do their part."""
    waiting = []
    for name, task in turn.rules.tasks.items():
        tally = turn.tallies[name]
        if len(tally.succeeded | tally.failed) >= task.replicas:
            continue
        if can_be_met(task, turn.tallies, turn.rules.tasks):
            return
        waiting.append(name)
    if waiting:
        culprit = first_failure(turn)
        why = f"{what_happened(culprit)}; " if culprit else ""
        tasks = ", ".join(waiting)
        fail(
            turn,
            reasons.DEPENDENCY_FAILED,
            f"{why}so what {tasks} depends on can no longer be there",
            culprit,
        )


def _restarting(turn: DecisionContext) -> None:
    status, rules = turn.status, turn.rules
    if not fail_if_out_of_runs(turn) and rules.replicas - _total_going(turn) >= rules.min_available:
        turn.set(restarting=None)
        turn.go(
            Phase.PENDING, "Restarted", f"run {status.retry_count + 1} of at most {rules.max_runs} begins"
        )


def _when_nothing_lives(phase: Phase) -> Callable[[DecisionContext], None]:
    def sync_ending(turn: DecisionContext) -> None:
        if not turn.live:
            turn.end(phase, turn.status.state.reason, turn.status.state.message, turn.status.culprit)

    return sync_ending


def _total(turn: DecisionContext, name: str) -> int:
    return sum(len(getattr(tally, name)) for tally in turn.tallies.values())


def _total_going(turn: DecisionContext) -> int:
    return sum(tally.terminating for tally in turn.tallies.values())


_SYNC: dict[Phase, Callable[[DecisionContext], None]] = {
    Phase.PENDING: _pending,
    Phase.RUNNING: _running,
    Phase.RESTARTING: _restarting,
    Phase.ABORTING: _when_nothing_lives(Phase.ABORTED),
    Phase.COMPLETING: _when_nothing_lives(Phase.COMPLETED),
    Phase.TERMINATING: _when_nothing_lives(Phase.TERMINATED),
}
