"""The watchdog of torch's nccl process group, which aborts a rank whose collective did not end in time."""

from __future__ import annotations

import re

from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.suspect import Suspect
from vcjob.wellknown import causes

_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d+), OpType=(\w+)(?:, NumelIn=(\d+))?"
)
_RAN_FOR = re.compile(r"ran for (\d{1,18}) milliseconds")


def collective_timeout(suspect: Suspect) -> Verdict | None:
    """Needs what the rank printed itself: the abort says nothing about the collective."""
    line, found = next(
        ((line, found) for line in suspect.lines if (found := _TIMEOUT.search(line))), ("", None)
    )
    ran_for = _RAN_FOR.search(line, found.end()) if found else None
    if found is None or ran_for is None:
        return None
    number, operation, elements = found.groups()
    size = f" of {elements} elements" if elements else ""
    return Verdict(
        causes.COLLECTIVE_TIMEOUT,
        f"waited {int(ran_for[1]) // 1000} s in {operation.lower()} #{number}{size}, and torch's watchdog ended it",
        "another rank did not call the same collective with the same size, or was slower than the timeout of the "
        "process group: compare the calls of all ranks",
    )
