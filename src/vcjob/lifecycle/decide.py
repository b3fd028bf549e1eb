"""`decide()`: the whole life of a Job in one pure function.

It keeps nothing and asks nobody: the same job, status, pods and time give the same decision, so a caller
that was killed between any two steps asks again and goes on.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.frozen_spec import spec_digest, spec_problem
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.phases import succeed_early, sync
from vcjob.lifecycle.reactions import react
from vcjob.lifecycle.requests import apply_requests
from vcjob.lifecycle.status import Condition, Phase, Status
from vcjob.lifecycle.steps import CREATING, missing, steps
from vcjob.lifecycle.tally import begun
from vcjob.spec.job import Job
from vcjob.wellknown import reasons


def decide(job: Job, status: Status, observed: Observed, now: float) -> Decision:
    """What the status becomes and what is to be done. Write the status first, then do the steps in order."""
    if job.metadata.deletion_timestamp:
        # Its pods go with it, and none of that is an event.
        return Decision(status, (), None, status.ready_tasks)
    turn = DecisionContext(job, status, observed, now)
    problem = None if status.over else spec_problem(job, status)
    if problem is not None:
        return _paused(turn, problem)
    _begin(turn)
    while turn.moved:
        turn.moved, turn.wake_at = False, None
        turn.look()
        for part in (apply_requests, succeed_early, react, sync):
            if not turn.moved:
                part(turn)
    _ready_tasks(turn)
    _begin_pods(turn)
    _count(turn)
    if turn.phase is Phase.PENDING:
        _say_why_pending(turn)
    todo = steps(turn)
    return Decision(turn.status, todo, turn.wake_at, turn.status.ready_tasks)


def _begin(turn: DecisionContext) -> None:
    """The first decision; or the first of ours, where another controller had the job before."""
    status = turn.status
    if status.state.since is None:
        turn.set(
            state=msgspec.structs.replace(status.state, since=turn.now),
            conditions=(*status.conditions, Condition(status.state.phase, turn.now)),
        )
    if not status.shape:
        turn.set(started=turn.now, shape=turn.rules.shape)
    if not status.over:
        turn.set(spec_digest=spec_digest(turn.job))
    if status.state.reason == reasons.INVALID_UPDATE:
        turn.set(state=msgspec.structs.replace(status.state, reason="", message=""))


def _paused(turn: DecisionContext, problem: Blocked) -> Decision:
    """Nothing is created, restarted or ended by a spec that must not take effect; the status says why."""
    state = turn.status.state
    if (state.reason, state.message) != (problem.reason, problem.message):
        turn.set(state=msgspec.structs.replace(state, reason=problem.reason, message=problem.message))
        turn.emit("Warning", problem.reason, problem.message)
    return Decision(turn.status, tuple(turn.events), None, turn.status.ready_tasks)


def _ready_tasks(turn: DecisionContext) -> None:
    """Whose dependsOn was met once stays ready until the whole job is restarted."""
    if turn.phase not in ACTIVE:
        return
    ready = []
    for name, task in turn.rules.tasks.items():
        met = [
            turn.tallies[other].available() >= turn.rules.tasks[other].min_available
            for other in task.depends_on
            if other in turn.tallies
        ]
        if name in turn.status.ready_tasks or not met or (all(met) if task.all_of else any(met)):
            ready.append(name)
    turn.set(ready_tasks=tuple(ready))


def _begin_pods(turn: DecisionContext) -> None:
    """Write down which pods may be made, all at once and before the first: see `recover`."""
    if turn.phase in CREATING and turn.observed.held is None:
        turn.remember(
            {
                name: begun(turn.status.memory(name), turn.rules.tasks[name].every_index)
                for name in turn.status.ready_tasks
                if name in turn.tallies
            }
        )


def _count(turn: DecisionContext) -> None:
    tallies = turn.tallies
    counts = {name: tally.counts() for name, tally in tallies.items()}
    total = {
        phase: sum(task.get(phase, 0) for task in counts.values())
        for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
    }
    turn.set(
        min_available=turn.rules.min_available,
        task_counts={name: of_task for name, of_task in counts.items() if of_task},
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total["Succeeded"],
        failed=total["Failed"],
        unknown=total["Unknown"],
        terminating=sum(tally.terminating for tally in tallies.values()),
    )


def _say_why_pending(turn: DecisionContext) -> None:
    status, rules, observed = turn.status, turn.rules, turn.observed
    waiting = [name for name in rules.tasks if name not in status.ready_tasks]
    up = status.running + status.succeeded + status.failed
    obstacle = observed.blocked or observed.held
    if obstacle is not None:
        reason, message = obstacle.reason, obstacle.message
    elif not rules.replicas:
        reason, message = reasons.NO_REPLICAS, "the job has 0 replicas"
    else:
        parts = [
            f"{up} of the {rules.min_available} pods needed are up or done",
            f"{status.pending} are pending",
        ]
        coming = sum(len(missing(turn, name)) for name in rules.tasks)
        parts += [f"{coming} are being created"] if coming else []
        parts += [f"{status.terminating} of an earlier run are ending"] if status.terminating else []
        parts += [f"{status.unknown} are unknown"] if status.unknown else []
        parts += [f"{', '.join(waiting)} waits for what it depends on"] if waiting else []
        reason = (
            reasons.PODS_PENDING
            if status.pending or coming or not waiting
            else reasons.WAITING_FOR_DEPENDS_ON
        )
        message = "; ".join(parts)
    turn.set(state=msgspec.structs.replace(status.state, reason=reason, message=message))
