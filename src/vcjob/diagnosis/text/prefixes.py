"""The prefixes that torch and torchrun put before the lines of a rank.

torch writes `[rank1]: ` before each line of a traceback once a process group exists; torchrun writes `[default0]:` with
`--tee`. The readers of output take them off, or use them to tell the workers of one pod apart. Any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vcjob.diagnosis.text.noise import without_colour

#: One prefix or several: torch's `[rank1]: `, and that of torchrun's `--tee`, `[default0]:`, with the role of the worker.
_PREFIX = re.compile(r"(?:\[[A-Za-z_][\w.-]{0,60}?\d{1,9}\]: ?){1,4}")
_RANK = re.compile(r"(?:\[[A-Za-z_][\w.-]{0,60}?\d{1,9}\]: ?){0,3}?\[rank(\d{1,9})\]: ?")
_WORKER = re.compile(r"\[[A-Za-z_][\w.-]{0,60}?(\d{1,9})\]:")


def plain(line: str) -> str:
    """The line as the program wrote it, without the prefixes of torch and torchrun."""
    line = without_colour(line)
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


def has_rank(line: str) -> bool:
    """Whether torch's own prefix is before it, so that torch's hook printed it."""
    return _RANK.match(line) is not None


def rank_of(line: str, first: int | None = None) -> int | None:
    """The rank of the worker below torchrun that printed the line; None: no prefix says so.

    `first`: the rank of torchrun's first worker. With it, the prefix of `--tee` counts too.
    """
    if match := _RANK.match(line):
        return int(match[1])
    if first is not None and (match := _WORKER.match(line)):
        return first + int(match[1])
    return None


def lines_by_rank(lines: Iterable[str], first: int | None = None) -> dict[int | None, list[str]]:
    """The lines of each worker below torchrun, as `rank_of` tells them apart; None: those without a prefix."""
    found: dict[int | None, list[str]] = {}
    for line in lines:
        found.setdefault(rank_of(line, first), []).append(line)
    return found
