"""What is asked for from outside: Commands, spec.suspend, spec.activeDeadlineSeconds."""

from __future__ import annotations

from vcjob.lifecycle.actions import ABORT, ACTIONS, RESUME, TARGETED, Cause, act, fail
from vcjob.lifecycle.decision_context import ACTIVE, DecisionContext
from vcjob.lifecycle.observed import Command
from vcjob.lifecycle.status_codec import go_duration
from vcjob.wellknown import reasons

#: How many carried-out Commands are remembered after they are gone, should an old view show them again.
COMMANDS_KEPT = 20


def apply_requests(turn: DecisionContext) -> None:
    """Carry out the oldest Command that is new, then see to it that the job is suspended as its spec says."""
    for command in turn.observed.commands.values():
        if command.uid not in turn.status.commands:
            _carry_out(turn, command)
            turn.moved = True
            return
    _suspend_or_resume(turn)
    if not turn.moved:
        _watch_deadline(turn)


def _carry_out(turn: DecisionContext, command: Command) -> None:
    known = (*turn.status.commands, command.uid)
    turn.set(
        commands=tuple(
            uid
            for place, uid in enumerate(known, 1)
            if place > len(known) - COMMANDS_KEPT or uid in turn.observed.commands
        )
    )
    cause = Cause("command", reasons.COMMAND_ISSUED, f"{command.action} was asked for")
    if command.action not in ACTIONS:
        why = "there is no such action"
    elif command.action in TARGETED:
        why = "it needs a pod, and a Command names none"
    elif act(turn, command.action, cause):
        return
    elif command.action == RESUME and turn.rules.suspend:
        why = "spec.suspend is true"
    else:
        why = f"the job is {turn.phase}"
    turn.emit("Warning", reasons.COMMAND_REJECTED, f"{command.action} is not done: {why}")


def _suspend_or_resume(turn: DecisionContext) -> None:
    if turn.rules.suspend:
        act(turn, ABORT, Cause("spec", reasons.SUSPENDED, "spec.suspend is true"))
    elif turn.status.suspended_by == "spec":
        act(turn, RESUME, Cause("spec", reasons.RESUMED, "spec.suspend is no longer true"))


def _watch_deadline(turn: DecisionContext) -> None:
    if turn.rules.active_deadline is None or turn.phase not in ACTIVE or turn.status.started is None:
        return
    due = turn.status.started + turn.rules.active_deadline
    if turn.now < due:
        turn.wake(due)
        return
    fail(
        turn,
        reasons.DEADLINE_EXCEEDED,
        f"the job took longer than its activeDeadlineSeconds ({go_duration(turn.rules.active_deadline)})",
    )
