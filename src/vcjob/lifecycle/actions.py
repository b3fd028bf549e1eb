"""The actions of policies, Commands and verbs: the table of phases in docs/semantics.md, one function per action.

An action only changes the status. Which pods are deleted for it follows from the status: those of an earlier
attempt, and those that still run in a phase that keeps no pod alive.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import ACTIVE, HISTORY_KEPT, DecisionContext, EventType
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.status import FINAL, MAX_RETRY_REACHED, Culprit, HistoryEntry, Phase
from vcjob.lifecycle.task_state import next_attempt
from vcjob.wellknown import reasons

ABORT, RESTART, RESTART_TASK, RESTART_POD = "AbortJob", "RestartJob", "RestartTask", "RestartPod"
RESTART_PARTITION, TERMINATE, COMPLETE, RESUME = (
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)

#: Actions on a task or a pod, which a Command cannot request because it names none.
TARGETED = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
ACTIONS = TARGETED | {ABORT, RESTART, TERMINATE, COMPLETE, RESUME}

_ENDINGS = {TERMINATE: Phase.TERMINATING, COMPLETE: Phase.COMPLETING}
_SUSPENDED = frozenset({Phase.ABORTING, Phase.ABORTED})


class Cause(msgspec.Struct, frozen=True):
    """Why an action is executed. `task` is that of the event, if it has one.

    Whoever decides on an action (a policy, a Command, a hang, the deadline) makes one; the status, its history and
    the event for users show it.
    """

    #: Who requests it: "policy", "command" or "spec".
    source: str
    reason: str
    message: str
    task: str = ""
    culprit: Culprit | None = None

    @property
    def event_reason(self) -> str:
        """The reason of the event: for policies and Commands the word that Volcano uses and tools look for."""
        return "" if self.source == "spec" else reasons.EXECUTE_ACTION


class Part(msgspec.Struct, frozen=True):
    """The indexes of one task that an action restarts, and why.

    The actions of several policies that are due at the same time are collected in these before they are executed.
    """

    action: str
    indexes: IndexSet
    cause: Cause


def execute(context: DecisionContext, action: str, cause: Cause) -> bool:
    """Execute `action` on the whole Job. Returns False, and changes nothing, where the phase does not allow it."""
    if context.phase in FINAL or action not in ACTIONS:
        return False
    if action == RESUME:
        return _resume(context, cause)
    if action == ABORT:
        return _abort(context, cause)
    if action in _ENDINGS:
        return _finish(context, _ENDINGS[action], cause)
    return _restart(context, action, cause)


def fail(context: DecisionContext, reason: str, message: str, culprit: Culprit | None = None) -> None:
    """End the Job as Failed; its finished pods stay."""
    context.end(Phase.FAILED, reason, message, culprit)


def _abort(context: DecisionContext, cause: Cause) -> bool:
    if context.phase in _SUSPENDED and cause.source == "spec" and context.status.suspended_by != "spec":
        # From now on only spec.suspend can resume it.
        context.update(suspended_by="spec")
        return True
    if context.phase not in ACTIVE:
        return False
    context.update(
        version=context.status.version + 1,
        suspended_by=cause.source,
        restarting=None,
        holding={},
        culprit=cause.culprit,
    )
    context.enter_phase(Phase.ABORTING, cause.reason, cause.message, event_reason=cause.event_reason)
    return True


def _finish(context: DecisionContext, phase: Phase, cause: Cause) -> bool:
    if context.phase not in ACTIVE and context.phase not in _SUSPENDED:
        return False
    kill = 1 if context.phase in ACTIVE else 0
    context.update(
        version=context.status.version + kill,
        suspended_by="",
        restarting=None,
        holding={},
        culprit=cause.culprit,
    )
    context.enter_phase(phase, cause.reason, cause.message, event_reason=cause.event_reason)
    return True


def _resume(context: DecisionContext, cause: Cause) -> bool:
    if context.phase not in _SUSPENDED or (context.rules.suspend and cause.source != "spec"):
        return False
    # Pods that succeeded are not run again, and the event that aborted the Job must not abort it again.
    memories = {}
    for name, state in context.tasks.items():
        memory = next_attempt(state.memory, context.rules.tasks[name].every_index - state.succeeded)
        memories[name] = msgspec.structs.replace(memory, kept=state.succeeded)
    context.save_tasks(memories)
    context.update(
        handled=tuple(f"TaskCompleted/{name}" for name in context.tasks if context.is_completed(name)),
        suspended_by="",
        ready_tasks=(),
        shape=context.rules.shape,
        started=context.now,
        running_since=None,
        finished=None,
        running_duration=None,
        culprit=None,
        restarting=_history_entry(context, RESUME, cause),
    )
    context.add_history(_history_entry(context, RESUME, cause))
    context.enter_phase(Phase.RESTARTING, cause.reason, cause.message, event_reason=cause.event_reason)
    return True


def _restart(context: DecisionContext, action: str, cause: Cause) -> bool:
    """Restart all tasks; an action on a part does so too where its event is not about a task."""
    under_way = context.status.restarting
    restarts_whole = under_way is not None and not under_way.task
    if context.phase not in ACTIVE or (context.phase is Phase.RESTARTING and restarts_whole):
        return False
    if _count_retry(context, cause):
        _restart_all(context)
        _record_restart(context, [_history_entry(context, action, cause)])
    _enter_restarting(context, cause)
    return True


def restart_parts(context: DecisionContext, parts: list[Part]) -> None:
    """Restart parts of tasks together, for one retry. Each is of another task, and the first says why."""
    cause = parts[0].cause
    if _count_retry(context, cause):
        tasks = [(part.cause.task, part) for part in parts]
        context.save_tasks(
            {name: next_attempt(context.status.memory(name), part.indexes) for name, part in tasks}
        )
        _record_restart(
            context,
            [_history_entry(context, part.action, part.cause, name, part.indexes) for name, part in tasks],
        )
    _enter_restarting(context, cause)


def _count_retry(context: DecisionContext, cause: Cause) -> bool:
    """Returns whether `maxRetry` allows another run. Otherwise the Job fails, and finished pods stay with their logs."""
    retry = context.status.retry_count + 1
    context.update(retry_count=retry, culprit=cause.culprit)
    return retry < context.rules.max_runs


def _record_restart(context: DecisionContext, entries: list[HistoryEntry]) -> None:
    """The first entry names the culprit of the status, so it becomes the latest: the diagnosis completes that one.

    A crash of many tasks leaves room for the restarts before it.
    """
    context.update(restarting=entries[0])
    for entry in reversed(entries[: HISTORY_KEPT // 2]):
        context.add_history(entry)


def _enter_restarting(context: DecisionContext, cause: Cause) -> None:
    kind: EventType = "Warning" if cause.culprit else "Normal"
    context.enter_phase(Phase.RESTARTING, cause.reason, cause.message, kind, cause.event_reason)
    fail_if_out_of_runs(context)


def fail_if_out_of_runs(context: DecisionContext) -> bool:
    if context.status.retry_count < context.rules.max_runs:
        return False
    message = f"{context.status.state.message}; no run is left (maxRetry {context.rules.max_runs})"
    fail(context, MAX_RETRY_REACHED, message, context.status.culprit)
    return True


def _restart_all(context: DecisionContext) -> None:
    context.save_tasks(
        {
            name: next_attempt(context.status.memory(name), context.rules.tasks[name].every_index)
            for name in context.tasks
        }
    )
    context.update(
        version=context.status.version + 1, ready_tasks=(), handled=(), holding={}, shape=context.rules.shape
    )


def _history_entry(
    context: DecisionContext, action: str, cause: Cause, task: str = "", indexes: IndexSet = EMPTY
) -> HistoryEntry:
    """The entry of an action on the whole Job, or on these indexes of a task."""
    return HistoryEntry(
        at=context.now,
        action=action,
        reason=cause.reason,
        message=cause.message,
        version=context.status.version,
        retry=context.status.retry_count,
        task=task,
        indexes=indexes.summary(),
        culprit=cause.culprit,
    )
