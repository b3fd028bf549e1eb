"""What torchrun prints about the workers below it: the table of failures, and where its own traceback begins.

`Suspect` uses it to name the worker that failed first. Any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from vcjob.diagnosis.text.prefixes import lines_by_rank, plain, rank_of
from vcjob.diagnosis.text.reader import Reader
from vcjob.diagnosis.text.tracebacks import says_why

#: torchrun's table of failures: its heading, two of the lines below it, and how far below they may be.
_ROOT_CAUSE = "Root Cause (first observed failure):"
_FAILED_RANK = re.compile(r"^\s*rank\s*: (\d{1,9}) \(local_rank: (\d{1,9})\)")
_FAILED_CODE = re.compile(r"^\s*exitcode\s*: (-?\d{1,9})\b")
_TABLE_LINES = 20


class TorchrunFailure(NamedTuple):
    """The worker that failed first, as torchrun observed it.

    Read from torchrun's own report in the output of the pod.
    """

    rank: int
    local_rank: int
    exit_code: int


def torchrun_root_cause(lines: Sequence[str]) -> TorchrunFailure | None:
    """The worker that torchrun's last table of failures names; None where there is no table."""
    start = max((place for place, line in enumerate(lines) if _ROOT_CAUSE in line), default=None)
    if start is None:
        return None
    table = [plain(line) for line in lines[start : start + _TABLE_LINES]]
    rank = next(filter(None, map(_FAILED_RANK.match, table)), None)
    code = next(filter(None, map(_FAILED_CODE.match, table)), None)
    return TorchrunFailure(int(rank[1]), int(rank[2]), int(code[1])) if rank and code else None


def of_first_worker(lines: Sequence[str]) -> Sequence[str]:
    """The lines of the worker that torchrun saw fail first, as far as prefixes tell them apart; without torchrun's table,
    all of them.

    The other workers of the pod raise their errors later, because of it.
    """
    root = torchrun_root_cause(lines)
    if root is None:
        return lines
    own = lines_by_rank(lines, root.rank - root.local_rank).get(root.rank, [])
    if Reader([*map(plain, own)]).blocks:
        return own
    kept = without_other_workers(lines, root)
    raised = any(not block.traceback.is_launcher for block in Reader([*map(plain, kept)]).blocks)
    return kept if raised else before_launcher(kept)


def without_other_workers(lines: Sequence[str], root: TorchrunFailure) -> Sequence[str]:
    """The lines that may be of the worker that torchrun saw fail first, as far as prefixes tell.

    All of them where it exited with 1, as Python does after an exception, and shows nothing: then its traceback is above the
    lines that are read, and those of the others are of the same moment.
    """
    first = root.rank - root.local_rank
    kept = tuple(line for line in lines if rank_of(line, first) in (root.rank, None))
    return lines if root.exit_code == 1 and not says_why(before_launcher(kept)) else kept


def before_launcher(lines: Sequence[str]) -> Sequence[str]:
    """The lines above the traceback of the launcher: what its processes printed; all of them where there is none."""
    blocks = Reader([*map(plain, lines)]).blocks
    start = next((block.start for block in blocks if block.traceback.is_launcher), len(lines))
    return lines[:start]


def before_child_error(lines: Sequence[str]) -> Sequence[str]:
    """The lines above the last traceback that says that a program has failed: what that program printed."""
    blocks = Reader([*map(plain, lines)]).blocks
    start = next((block.start for block in reversed(blocks) if block.traceback.is_of_child), len(lines))
    return lines[:start]
