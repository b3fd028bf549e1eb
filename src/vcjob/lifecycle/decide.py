"""`decide()`: the whole life of a Job in one pure function.

The same Job, status, pods and time give the same decision, so a backend that was killed between any two steps
calls it again and continues. A decision makes a bounded number of passes, each linear in tasks and pods.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.decision_context import ACTIVE, MESSAGE_BYTES, DecisionContext
from vcjob.lifecycle.dependencies import ready_tasks
from vcjob.lifecycle.descriptions import join_names, shorten
from vcjob.lifecycle.frozen_spec import spec_digest, spec_problem
from vcjob.lifecycle.hang import act_on_hang
from vcjob.lifecycle.next_steps import CREATING, missing, steps
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.phases import complete_on_min_success, sync
from vcjob.lifecycle.policy_actions import apply_policies
from vcjob.lifecycle.status import Condition, Phase, Status
from vcjob.lifecycle.task_state import mark_begun
from vcjob.lifecycle.user_requests import apply_user_requests, record_commands, take_commands
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

#: Passes over the tasks that one decision makes at most; a decision that needs more continues in the next.
PASSES_PER_DECISION = 16


def decide(job: Job, status: Status, observed: Observed, now: float) -> Decision:
    """The next status and the steps that follow. Write the status first, then execute the steps in order."""
    if job.metadata.deletion_timestamp:
        # Its pods are deleted with it, and that is no event.
        return Decision(status, (), None, status.ready_tasks)
    context = DecisionContext(job, status, observed, now)
    if status.never_ran_here:
        return _never_ran_here(context)
    problem = None if status.over else spec_problem(job, status)
    if problem is not None:
        return _paused(context, problem)
    _begin(context)
    more_commands = take_commands(context)
    for _ in range(PASSES_PER_DECISION):
        context.begin_pass()
        for part in (apply_user_requests, complete_on_min_success, apply_policies, act_on_hang, sync):
            if not context.changed:
                part(context)
        if not context.changed:
            break
    else:
        context.begin_pass()
        context.wake_by(now)
    if more_commands:
        context.wake_by(now)
    record_commands(context)
    _set_ready_tasks(context)
    _mark_pods_begun(context)
    _set_counters(context)
    if context.phase is Phase.PENDING:
        _set_pending_reason(context)
    planned = steps(context)  # may set wake_at
    return Decision(context.status, planned, context.wake_at, context.status.ready_tasks)


def _begin(context: DecisionContext) -> None:
    """The first decision about a Job, or the first one of vcjob after another controller's."""
    status = context.status
    if status.state.since is None:
        context.update(
            state=msgspec.structs.replace(status.state, since=context.now),
            conditions=(*status.conditions, Condition(status.state.phase, context.now)),
        )
    if not status.shape:
        context.update(started=context.now, shape=context.rules.shape)
    if not status.over:
        context.update(spec_digest=spec_digest(context.job))
    if status.state.reason in (reasons.INVALID_UPDATE, reasons.INVALID_JOB):  # it is valid now
        context.update(state=msgspec.structs.replace(status.state, reason="", message=""))


def _never_ran_here(context: DecisionContext) -> Decision:
    """Commands are rejected, pods that still run are deleted, and the Job is deleted after its TTL. What the status says
    about its end stays, and the tasks of the spec are not read."""
    more_commands = take_commands(context)
    context.changed = False
    apply_user_requests(context)
    if more_commands:
        context.wake_by(context.now)
    record_commands(context)
    planned = steps(context)  # may set wake_at
    return Decision(context.status, planned, context.wake_at, context.status.ready_tasks)


def _paused(context: DecisionContext, problem: Blocked) -> Decision:
    """Nothing is created, restarted or ended by a spec that must not take effect; the status says why."""
    state = context.status.state
    if (state.reason, state.message) != (problem.reason, problem.message):
        context.update(state=msgspec.structs.replace(state, reason=problem.reason, message=problem.message))
        context.emit("Warning", problem.reason, problem.message)
    return Decision(context.status, tuple(context.events), None, context.status.ready_tasks, paused=True)


def _set_ready_tasks(context: DecisionContext) -> None:
    """A task whose dependsOn was met once stays ready until the whole Job is restarted."""
    if context.phase in ACTIVE:
        before = frozenset(context.status.ready_tasks)
        context.update(ready_tasks=ready_tasks(context.rules.tasks, context.tasks, before))


def _mark_pods_begun(context: DecisionContext) -> None:
    """Record which pods may be created before the first of them is: see `recover`."""
    if context.phase in CREATING and context.observed.held is None:
        context.save_tasks(
            {
                name: mark_begun(context.status.memory(name), context.rules.tasks[name].every_index)
                for name in context.status.ready_tasks
                if name in context.tasks
            }
        )


def _set_counters(context: DecisionContext) -> None:
    total = dict.fromkeys(("Pending", "Running", "Succeeded", "Failed", "Unknown"), 0)
    by_task: dict[str, dict[str, int]] = {}
    terminating = 0
    for name, state in context.tasks.items():
        terminating += state.terminating
        if counts := state.counts():
            by_task[name] = counts
            for phase, count in counts.items():
                total[phase] += count
    context.update(
        min_available=context.rules.min_available,
        task_counts=by_task,
        pending=total["Pending"],
        running=total["Running"],
        succeeded=total["Succeeded"],
        failed=total["Failed"],
        unknown=total["Unknown"],
        terminating=terminating,
    )


def _set_pending_reason(context: DecisionContext) -> None:
    status, rules, observed = context.status, context.rules, context.observed
    ready = frozenset(status.ready_tasks)
    waiting = [name for name in rules.tasks if name not in ready]
    up = status.running + status.succeeded + status.failed
    obstacle = observed.blocked or observed.held
    if obstacle is not None:
        reason, message = obstacle.reason, obstacle.message
    elif not rules.replicas:
        reason, message = reasons.NO_REPLICAS, "the job has 0 replicas"
    else:
        coming = sum(len(missing(context, name)) for name in rules.tasks if name in ready)
        if coming and not up and not status.pending:
            parts = [f"starting {coming} {'pod' if coming == 1 else 'pods'}"]
        else:
            parts = [
                f"{up} of the {rules.min_available} pods needed are running or have ended",
                f"{status.pending} pending",
            ]
            parts += [f"{coming} being created"] if coming else []
        parts += [f"{status.terminating} from an earlier run terminating"] if status.terminating else []
        parts += [f"{status.unknown} unknown"] if status.unknown else []
        parts += [f"{join_names(waiting)} waits for the tasks that it depends on"] if waiting else []
        reason = (
            reasons.PODS_PENDING
            if status.pending or coming or not waiting
            else reasons.WAITING_FOR_DEPENDS_ON
        )
        message = "; ".join(parts)
    context.update(
        state=msgspec.structs.replace(status.state, reason=reason, message=shorten(message, MESSAGE_BYTES))
    )
