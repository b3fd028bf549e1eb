"""What is asked for from outside: Commands, spec.suspend, spec.activeDeadlineSeconds."""

from __future__ import annotations

from vcjob.lifecycle.actions import ABORT, ACTIONS, RESUME, TARGETED, Cause, execute, fail
from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.observed import Command
from vcjob.lifecycle.status_codec import go_duration
from vcjob.wellknown import reasons

#: How many carried-out Commands are remembered after they are gone, should an old view show them again.
COMMANDS_KEPT = 20


def apply_user_requests(context: DecisionContext) -> None:
    """Carry out the oldest Command that is new, then see to it that the job is suspended as its spec says."""
    for command in context.observed.commands.values():
        if command.uid not in context.status.commands:
            _execute_command(context, command)
            context.changed = True
            return
    _suspend_or_resume(context)
    if not context.changed:
        _watch_deadline(context)


def _execute_command(context: DecisionContext, command: Command) -> None:
    known = (*context.status.commands, command.uid)
    context.update(
        commands=tuple(
            uid
            for place, uid in enumerate(known, 1)
            if place > len(known) - COMMANDS_KEPT or uid in context.observed.commands
        )
    )
    cause = Cause("command", reasons.COMMAND_ISSUED, f"{command.action} was asked for")
    if command.action not in ACTIONS:
        why = "there is no such action"
    elif command.action in TARGETED:
        why = "it needs a pod, and a Command names none"
    elif execute(context, command.action, cause):
        return
    elif command.action == RESUME and context.rules.suspend:
        why = "spec.suspend is true"
    else:
        why = f"the job is {context.phase}"
    context.emit("Warning", reasons.COMMAND_REJECTED, f"{command.action} is not done: {why}")


def _suspend_or_resume(context: DecisionContext) -> None:
    if context.rules.suspend:
        execute(context, ABORT, Cause("spec", reasons.SUSPENDED, "spec.suspend is true"))
    elif context.status.suspended_by == "spec":
        execute(context, RESUME, Cause("spec", reasons.RESUMED, "spec.suspend is no longer true"))


def _watch_deadline(context: DecisionContext) -> None:
    if context.rules.active_deadline is None or context.phase not in ACTIVE or context.status.started is None:
        return
    due = context.status.started + context.rules.active_deadline
    if context.now < due:
        context.wake_by(due)
        return
    fail(
        context,
        reasons.DEADLINE_EXCEEDED,
        f"the job took longer than its activeDeadlineSeconds ({go_duration(context.rules.active_deadline)})",
    )
