"""What users request: Commands, spec.suspend, spec.activeDeadlineSeconds.

The number of Commands that one decision executes is bounded, because anyone who may create Commands may create
thousands. The others stay where they are until the next decision, which follows at once; none is lost.
"""

from __future__ import annotations

from itertools import islice

from vcjob.lifecycle.actions import ABORT, ACTIONS, RESUME, TARGETED, Cause, execute, fail
from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.descriptions import join_names, shorten
from vcjob.lifecycle.observed import Command
from vcjob.lifecycle.status_codec import go_duration
from vcjob.wellknown import reasons

#: Commands that one decision executes at most.
COMMANDS_PER_DECISION = 100
#: Executed Commands that are kept after their deletion, in case an old view shows them again.
COMMANDS_KEPT = 20
#: Executed Commands that may wait for their deletion. Further ones are executed once the backend has deleted some.
COMMANDS_UNDELETED = 1000


def take_commands(context: DecisionContext) -> bool:
    """Choose the Commands that this decision executes, oldest first. Returns whether others are left for the next."""
    commands = context.observed.commands
    if not commands:
        return False
    recorded = frozenset(context.status.commands)
    room = COMMANDS_UNDELETED - sum(uid in commands for uid in recorded)
    limit = max(0, min(COMMANDS_PER_DECISION, room))
    new = list(islice((command for uid, command in commands.items() if uid not in recorded), limit + 1))
    context.new_commands = new[:limit][::-1]
    return len(new) > limit > 0


def record_commands(context: DecisionContext) -> None:
    """Record the executed Commands in the status, so that none is executed twice, and report the rejected ones."""
    if context.executed_commands:
        uids = (*context.status.commands, *context.executed_commands)
        old = len(uids) - COMMANDS_KEPT
        commands = context.observed.commands
        context.update(
            commands=tuple(uid for place, uid in enumerate(uids) if place >= old or uid in commands)
        )
    if context.rejected_commands:
        # One event: users choose the actions, so each message can differ from all others.
        message = join_names(list(dict.fromkeys(context.rejected_commands)), separator="; ")
        context.emit("Warning", reasons.COMMAND_REJECTED, message)


def apply_user_requests(context: DecisionContext) -> None:
    """Execute Commands until one changes the Job; without one, suspend or resume it as its spec says."""
    while context.new_commands and not context.changed:
        command = context.new_commands.pop()
        context.executed_commands.append(command.uid)
        _execute_command(context, command)
    if not context.changed:
        _suspend_or_resume(context)
    if not context.changed:
        _watch_deadline(context)


def _execute_command(context: DecisionContext, command: Command) -> None:
    cause = Cause("command", reasons.COMMAND_ISSUED, f"{command.action} was requested")
    if command.action not in ACTIONS:
        why = "there is no such action"
    elif command.action in TARGETED:
        why = "it needs a pod, and a Command cannot name one"
    elif execute(context, command.action, cause):
        context.changed = True
        return
    elif command.action == RESUME and context.rules.suspend:
        why = "spec.suspend is true"
    else:
        why = f"the job is {context.phase}"
    context.rejected_commands.append(f"{shorten(command.action, 100)} was rejected: {why}")


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
