"""Python tracebacks in a rank's output, as text.

torch prefixes each line with `[rank1]: ` once a process group exists; torchrun adds a table of its own below. Both are
taken off here. Nothing is imported from the user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

_PREFIX = re.compile(r"^\[(?:rank\d+|default\d+)\]: ?")
_HEAD = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)(?:, in (.+))?$')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |:?$)")
#: Code that is not the user's: installed packages, the standard library, generated code.
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen |/torchrun$|/bin/")
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
        return "\n".join((self.exception, *self.more))


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
                found.append(Traceback(tuple(frames), message[0], tuple(message[1:])))
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


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The one that ended the program: the last; of a chain, the exception that was raised last."""
    found = tracebacks(lines)
    return found[-1] if found else None


def torchrun_root_cause(lines: Sequence[str]) -> tuple[int | None, int] | None:
    """(local rank, exit code) from torchrun's table of failures; None where there is no table."""
    text = "\n".join(map(plain, lines))
    match = re.search(
        r"Root Cause \(first observed failure\):.*?rank\s*: \d+ \(local_rank: (\d+)\).*?exitcode\s*: (-?\d+)",
        text,
        re.DOTALL,
    )
    return (int(match[1]), int(match[2])) if match else None
