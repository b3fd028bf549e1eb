"""What a hung Job leads to: nothing, a restart or a failure, as its annotation says.

`act_on_hang` is one part of a pass of `decide`. That the Job hangs is observed by the backend; here is neither a clock
nor a memory. A hang that was seen in an earlier run of the Job no longer counts.
"""

from __future__ import annotations

from vcjob.lifecycle.actions import RESTART, Cause, execute, fail
from vcjob.lifecycle.decision_context import DecisionContext
from vcjob.lifecycle.status import Phase
from vcjob.wellknown import reasons


def act_on_hang(context: DecisionContext) -> None:
    hang, action = context.observed.hang, context.rules.on_hang
    if hang is None or context.phase is not Phase.RUNNING or hang.version != context.status.version:
        return
    if action == "restart":
        execute(context, RESTART, Cause("policy", reasons.HUNG, f"{hang.message}; on-hang: restart"))
    elif action == "fail":
        fail(context, reasons.HUNG, f"{hang.message}; on-hang: fail")
