"""Python tracebacks in a rank's output, as text.

torch prefixes each line with `[rank1]: ` once a process group exists; torchrun adds a table of its own below. Both are
taken off here. Nothing is imported from the user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

_PREFIX = re.compile(r"^\[(?:rank\d+|default\d+)\]: ?")
_RANK = re.compile(r"^\[rank(\d{1,9})\]: ?")
#: torchrun's table of failures: its heading, two of the lines below it, and how far below they may be.
_ROOT_CAUSE = "Root Cause (first observed failure):"
_FAILED_RANK = re.compile(r"^\s*rank\s*: (\d{1,9}) \(local_rank: (\d{1,9})\)")
_FAILED_CODE = re.compile(r"^\s*exitcode\s*: (-?\d{1,9})\b")
_TABLE_LINES = 20
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(.+)", line (\d{1,9})(?:, in (.+))?$')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |:?$)")
#: Code that is not the user's: installed packages, the standard library, generated code.
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen |/torchrun$|/bin/")
#: What torch also prints after the line that says why: warnings and notes of its log, and frames of native code.
_TORCH_LOG = re.compile(r"^\[[WI]\d{4} \d\d:|^frame #\d+: |^Exception raised from ")
#: Characters of a message that are searched; what went wrong stands above the frames of native code.
LONGEST_TEXT = 8000
_NCCL_DETAIL = "Last error:"
#: What torchrun itself raises because a process of its own has failed or was ended.
LAUNCHER_ERRORS = ("ChildFailedError", "SignalException")
_DISTRIBUTED = re.compile(r"/torch/distributed/|/torch/nn/parallel/")


class Place(msgspec.Struct, frozen=True):
    """A frame: where the program was."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where} in {self.function}" if self.function else where

    @property
    def is_library(self) -> bool:
        return _LIBRARY.search(self.file) is not None


class Traceback(msgspec.Struct, frozen=True):
    """One traceback: frames, outermost first; the exception's first line; further lines of its message."""

    frames: tuple[Place, ...]
    exception: str
    more: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.exception.partition(":")[0].rpartition(".")[2]

    @property
    def own_frame(self) -> Place | None:
        """The last frame in the user's own code, else the innermost one."""
        own = [frame for frame in self.frames if not frame.is_library]
        return own[-1] if own else self.frames[-1] if self.frames else None

    @property
    def in_distributed(self) -> bool:
        """Whether torch's communication raised it."""
        below = (
            self.frames[self.frames.index(self.own_frame) + 1 :]
            if self.own_frame in self.frames
            else self.frames
        )
        return any(_DISTRIBUTED.search(frame.file) for frame in below)

    @property
    def text(self) -> str:
        """The message, as far as rules search it."""
        return "\n".join((self.exception, *self.more))[:LONGEST_TEXT]


def plain(line: str) -> str:
    """The line as the program wrote it, without torch's prefix."""
    return _PREFIX.sub("", line, count=1)


def tracebacks(lines: Iterable[str]) -> list[Traceback]:
    """Every complete traceback, in the order in which they were printed."""
    found: list[Traceback] = []
    frames: list[Place] | None = None
    message: list[str] = []
    for raw in (*map(plain, lines), _HEAD):
        line = raw.rstrip()
        if line.lstrip() == _HEAD or not line or line.startswith("====="):
            if frames is not None and message:
                found.append(_traceback(frames, message))
                frames, message = None, []
            if line.lstrip() == _HEAD:
                frames, message = [], []
        elif frames is None:
            continue
        elif match := _FRAME.match(line):
            frames.append(Place(match[1], int(match[2]), match[3] or ""))
            message = []
        elif message or (not line.startswith(" ") and _EXCEPTION.match(line)):
            message.append(line)
    return found


def _traceback(frames: list[Place], message: list[str]) -> Traceback:
    """nccl's message begins with where it was raised; what went wrong stands below `Last error:`."""
    exception, more = message[0], message[1:]
    if _NCCL_DETAIL in more[:-1]:
        kind = exception.partition(":")[0]
        exception, more = f"{kind}: {more[more.index(_NCCL_DETAIL) + 1]}", message
    return Traceback(tuple(frames), exception, tuple(more))


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The one that ended the program: the last; a launcher's own only where the program printed none."""
    found = tracebacks(lines)
    own = [each for each in found if each.type not in LAUNCHER_ERRORS]
    return next(reversed(own or found), None)


def last_lines(lines: Sequence[str], count: int) -> tuple[str, ...]:
    """The last lines that may be a reason: no rulers, and torch's own log only where nothing else was printed."""
    said = [line for raw in lines if (line := plain(raw).strip()) and not set(line) <= set("=-_ ")]
    return tuple([line for line in said if not _TORCH_LOG.match(line)][-count:] or said[-count:])


def last_line(lines: Sequence[str]) -> str:
    return "".join(last_lines(lines, 1))


def reason_line(lines: Sequence[str]) -> str:
    """Why a program ended, in one line of its own output: its last exception, else the last line."""
    found = last_traceback(lines)
    return found.exception if found else last_line(lines)


class TorchrunFailure(NamedTuple):
    """The worker that failed first, as torchrun observed it."""

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


def before_last_traceback(lines: Sequence[str]) -> Sequence[str]:
    """The lines above the last traceback; all of them where there is none."""
    heads = [place for place, line in enumerate(lines) if plain(line).lstrip().startswith(_HEAD)]
    return lines[: heads[-1]] if heads else lines


def lines_by_rank(lines: Iterable[str]) -> dict[int | None, list[str]]:
    """The lines of each worker below torchrun, by torch's prefix `[rank1]: `; None: those without one."""
    found: dict[int | None, list[str]] = {}
    for line in lines:
        match = _RANK.match(line)
        found.setdefault(int(match[1]) if match else None, []).append(line)
    return found
