"""Python tracebacks in a rank's output, as text.

torch prefixes each line with `[rank1]: ` once a process group exists; torchrun adds a table of its own below, and a
progress bar may stand before the first line. All of it is taken off here. Nothing is imported from the
user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from vcjob.diagnosis.noise import is_minor_record, is_noise, shows_progress, without_colour, without_noise

#: One prefix or several: torch's `[rank1]: `, and that of torchrun's `--tee`, `[default0]:`, with the role of the worker.
_PREFIX = re.compile(r"(?:\[[A-Za-z_][\w.-]{0,60}?\d{1,9}\]: ?){1,4}")
_RANK = re.compile(r"(?:\[[A-Za-z_][\w.-]{0,60}?\d{1,9}\]: ?){0,3}?\[rank(\d{1,9})\]: ?")
_WORKER = re.compile(r"\[[A-Za-z_][\w.-]{0,60}?(\d{1,9})\]:")
#: torchrun's table of failures: its heading, two of the lines below it, and how far below they may be.
_ROOT_CAUSE = "Root Cause (first observed failure):"
_FAILED_RANK = re.compile(r"^\s*rank\s*: (\d{1,9}) \(local_rank: (\d{1,9})\)")
_FAILED_CODE = re.compile(r"^\s*exitcode\s*: (-?\d{1,9})\b")
_TABLE_LINES = 20
_HEAD = "Traceback (most recent call last):"
_GROUP_HEAD = f"+ Exception Group {_HEAD}"
#: The head in a frame of `rich`.
_BOX_HEAD = re.compile(r"╭[─ ]+Traceback \(most recent call last\)")
_FRAME = re.compile(r'^\s*File "(.+)", line (\d{1,9})(?:, in (.+))?$')
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: |:?$)")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
#: What Python prints above the traceback of an error that does not end the program: of a thread, or one that it ignores.
_IN_THREAD = re.compile(r"Exception in (?:thread|callback) ")
_IGNORED = re.compile(
    r"Exception ignored |Error in atexit\._run_exitfuncs|--- Logging error ---|Error in sys\.excepthook"
    r"|(?:Task|Future) exception was never retrieved"
)
_CHAINED = re.compile(r"During handling of the above exception|The above exception was the direct cause")
#: Code that is not the user's: installed packages, the standard library, generated code.
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d|^<frozen |/torchrun$|/bin/")
#: Characters of a message that are searched; what went wrong stands above the frames of native code.
LONGEST_TEXT = 8000
_NCCL_DETAIL = "Last error:"
#: What torchrun itself raises because a process of its own has failed or was ended.
LAUNCHER_ERRORS = ("ChildFailedError", "SignalException")
#: `accelerate launch` raises an error of the standard library.
_CHILD_ERROR = "CalledProcessError"
_LAUNCHER = re.compile(r"/accelerate/commands/|/torch/distributed/(?:launch|run)\.py$|/deepspeed/launcher/")
_DIED_OF = re.compile(r"died with <Signals\.\w{1,12}: (\d{1,3})>")
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
    """One traceback: frames, outermost first; the exception's first line; further lines of its message.

    `uncaught`: torch's hook printed it, so it ended the program. `went_on`: what follows shows that the program handled
    it and went on. `child_signal`: the signal that ended the process, as its launcher says below it.
    """

    frames: tuple[Place, ...]
    exception: str
    more: tuple[str, ...] = ()
    uncaught: bool = False
    went_on: bool = False
    child_signal: int | None = None

    @property
    def type(self) -> str:
        return self.exception.partition(":")[0].rpartition(".")[2]

    @property
    def is_launcher(self) -> bool:
        """Whether a launcher raised it because a process that it started has failed."""
        if self.type == _CHILD_ERROR:
            return any(_LAUNCHER.search(frame.file) for frame in self.frames[-3:])
        return self.type in LAUNCHER_ERRORS

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
    """The line as the program wrote it, without the prefixes of torch and torchrun."""
    line = without_colour(line)
    match = _PREFIX.match(line)
    return line[match.end() :] if match else line


class _Block(NamedTuple):
    """A traceback and its lines, `start` to `end`; `said`: where its exception is. `kind`: "", "thread", "ignored"."""

    start: int
    said: int
    end: int
    traceback: Traceback
    kind: str = ""


class _Reader:
    """Finds the tracebacks in lines without prefixes, in one pass.

    `blocks` are those that are complete; `ignored`: the places of lines that belong to ignored errors.
    """

    def __init__(self, lines: Sequence[str], *, in_group: bool = False) -> None:
        self.lines = lines
        self._in_group = in_group
        self.blocks: list[_Block] = []
        self.ignored: set[int] = set()
        self._kind = ""  # of the traceback that may begin at this line
        self._close()
        place = 0
        while place < len(lines):
            place = self._read(place, lines[place].rstrip())
        self._finish(len(lines))

    def _close(self) -> None:
        self._start = self._said = -1
        self._frames: list[Place] = []
        self._message: list[str] = []
        #: The exception is indented less than the frames.
        self._indent = 1
        self._headless = self._boxed = False

    @property
    def _open(self) -> bool:
        return self._start >= 0

    def _read(self, place: int, line: str) -> int:
        """Take in one line, or a whole group of exceptions. Returns the place of the next line."""
        if line.endswith(_HEAD):
            kind = self._begin(place)
            if line.lstrip().startswith(_GROUP_HEAD) and not self._in_group:
                return self._group(place, kind)
        elif _BOX_HEAD.match(line.lstrip()):
            self._begin(place)
            self._boxed = True
        elif self._open and self._message:
            self._read_message(place, line)
        elif self._open and self._boxed and line.lstrip()[:1] in ("│", "╰"):
            self._read_box(line)
        elif self._open and line and self._read_inside(place, line):
            pass
        elif self._kind == "ignored" and line and self.lines[place - 1].strip() and _EXCEPTION.match(line):
            self.ignored.update((place - 1, place))  # printed without a traceback
            self._kind = ""
        else:
            self._read_outside(place, line)
        return place + 1

    def _begin(self, place: int) -> str:
        self._finish(place)
        self._start = place
        return self._kind

    def _read_message(self, place: int, line: str) -> None:
        if line and not line.startswith("=====") and not is_noise(line) and not _marks(line):
            self._message.append(line)
        else:
            self._finish(place)
            self._read_outside(place, line)

    def _read_inside(self, place: int, line: str) -> bool:
        """A frame, its code, or the exception. False: the line belongs to no traceback."""
        indent = len(line) - len(line.lstrip())
        if match := _FRAME.match(line):
            if not self._frames:
                self._indent = indent or 1
            self._frames.append(Place(match[1], int(match[2]), match[3] or ""))
        elif indent < self._indent and _EXCEPTION.match(line.lstrip()):
            if self._headless and not line.startswith(_SYNTAX_ERRORS):
                self._close()
                return False
            self._said, self._message = place, [line.strip()]
        elif self._headless and indent < self._indent:
            self._close()
            return False
        return True

    def _read_box(self, line: str) -> None:
        """`│ /app/train.py:12 in main    │`"""
        text = line.strip().strip("│")
        file, _, function = text[1:].rstrip().rpartition(" in ")
        name, _, number = file.rpartition(":")
        if text[1:2].strip() and name and number.isascii() and number.isdigit() and len(number) < 10:
            self._frames.append(Place(name, int(number), function))

    def _read_outside(self, place: int, line: str) -> None:
        if not line:
            return
        match = _FRAME.match(line)
        if match and match[3] is None and not self._open:
            # A script that cannot be compiled has no traceback.
            self._start, self._headless = place, True
            self._read_inside(place, line)
        elif kind := _marks(line):
            self._kind = kind
            if kind == "ignored":
                self.ignored.add(place)
        elif _CHAINED.match(line):
            self._kind = self.blocks[-1].kind if self.blocks else ""
        elif not line.startswith(("future: ", "handle: ")):
            self._kind = ""

    def _finish(self, end: int) -> None:
        if self._open and self._message:
            self._add(end, _traceback(self._frames, self._message))
        self._close()

    def _add(self, end: int, found: Traceback) -> None:
        self.blocks.append(_Block(self._start, self._said, end, found, self._kind))
        if self._kind == "ignored":
            self.ignored.update(range(self._start, end))
        self._kind = ""

    def _group(self, start: int, kind: str) -> int:
        """`| ` stands before every line of a group, and `+---` before each of its exceptions."""
        inside, place = [_HEAD], start + 1
        while place < len(self.lines) and (text := self.lines[place].lstrip())[:1] in ("|", "+"):
            inside.append(text[2:] if text.startswith("|") else "")
            place += 1
        found = [block.traceback for block in _Reader(inside, in_group=True).blocks]
        if found:
            self._kind, self._said = kind, start
            self._add(place, _group(found, inside))
        self._close()
        return place


def _marks(line: str) -> str:
    """Which kind of traceback this line announces."""
    return "thread" if _IN_THREAD.match(line) else "ignored" if _IGNORED.match(line) else ""


def _group(found: Sequence[Traceback], inside: Sequence[str]) -> Traceback:
    """A group of exceptions as one: it is named with the first of them."""
    group = found[0]
    parts = inside[inside.index("") :] if "" in inside else ()
    bare = next((line for line in parts if _EXCEPTION.match(line) and "Group:" not in line), None)
    first = next((each for each in found[1:] if "Group:" not in each.exception), None)
    said = bare if first is None else first.exception
    exception = group.exception if said is None else f"{group.exception}; the first: {said}"
    more = tuple(line for line in parts if _EXCEPTION.match(line))
    return Traceback((*group.frames, *(first.frames if first else ())), exception, more)


def _traceback(frames: list[Place], message: list[str]) -> Traceback:
    """nccl's message begins with where it was raised; what went wrong stands below `Last error:`."""
    exception, more = message[0], message[1:]
    if _NCCL_DETAIL in more[:-1]:
        kind = exception.partition(":")[0]
        exception, more = f"{kind}: {more[more.index(_NCCL_DETAIL) + 1]}", message
    return Traceback(tuple(frames), exception, tuple(more))


def tracebacks(lines: Iterable[str]) -> list[Traceback]:
    """Every complete traceback, in the order in which they were printed."""
    return [block.traceback for block in _Reader([*map(plain, lines)]).blocks]


def last_traceback(lines: Sequence[str]) -> Traceback | None:
    """The one that may have ended the program: the last of the main thread.

    That of another thread counts where it is the only one and nothing follows it; a launcher's where there is no other.
    """
    said = [*map(plain, lines)]
    blocks = [block for block in _Reader(said).blocks if block.kind != "ignored"]
    own = [block for block in blocks if not block.kind and not block.traceback.is_launcher]
    if own:
        return _judged(own[-1], blocks, lines, said)
    threads = [block for block in blocks if block.kind]
    if threads and not (found := _judged(threads[-1], blocks, lines, said)).went_on:
        return found
    if launchers := [block for block in blocks if not block.kind]:
        return _judged(launchers[-1], blocks, lines, said)
    return None


def _judged(block: _Block, blocks: Sequence[_Block], lines: Sequence[str], said: Sequence[str]) -> Traceback:
    """The traceback, with what the lines around it show. A launcher's own output below it is no sign of progress."""
    launchers = [each for each in blocks if each.start >= block.start and each.traceback.is_launcher]
    reader = _Reader(said[block.end : launchers[0].start] if launchers else said[block.end :])
    after = [line for place, line in enumerate(reader.lines) if place not in reader.ignored]
    died = next(filter(None, (_DIED_OF.search(each.traceback.text) for each in launchers)), None)
    return msgspec.structs.replace(
        block.traceback,
        uncaught=block.said < len(lines) and _RANK.match(lines[block.said]) is not None,
        went_on=not block.traceback.is_launcher and shows_progress(block.traceback.more, after),
        child_signal=int(died[1]) if died else None,
    )


def last_lines(lines: Sequence[str], count: int) -> tuple[str, ...]:
    """The last lines that may be a reason; noise, and errors that Python ignored, only where nothing else was printed."""
    said = [*map(plain, lines)]
    ignored = _Reader(said).ignored
    reasons = without_noise(line for place, line in enumerate(said) if place not in ignored)
    if not reasons:
        reasons = [text for line in said if (text := line.strip()) and not set(text) <= set("=-_ ")]
    return tuple(reasons[-count:])


def last_line(lines: Sequence[str]) -> str:
    return "".join(last_lines(lines, 1))


def says_why(lines: Sequence[str]) -> bool:
    """Whether these lines are likely to explain an end: a traceback at their end, or a last line that is no mere note."""
    found = last_traceback(lines)
    if found is not None and not found.went_on:
        return True
    said = without_noise(map(plain, lines))
    return bool(said) and not is_minor_record(said[-1])


def reason_line(lines: Sequence[str]) -> str:
    """Why a program ended, in one line of its own output: its last exception, else the last line."""
    found = last_traceback(lines)
    return found.exception if found is not None and not found.went_on else last_line(lines)


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


def before_launcher(lines: Sequence[str]) -> Sequence[str]:
    """The lines above the traceback of the launcher: what its processes printed; all of them where there is none."""
    blocks = _Reader([*map(plain, lines)]).blocks
    start = next((block.start for block in blocks if block.traceback.is_launcher), len(lines))
    return lines[:start]


def lines_by_rank(lines: Iterable[str], first: int | None = None) -> dict[int | None, list[str]]:
    """The lines of each worker below torchrun, by torch's prefix `[rank1]: `; None: those without one.

    `first`: the rank of torchrun's first worker. With it, lines that have only the prefix of `--tee` are counted too.
    """
    found: dict[int | None, list[str]] = {}
    for line in lines:
        rank = None
        if match := _RANK.match(line):
            rank = int(match[1])
        elif first is not None and (match := _WORKER.match(line)):
            rank = first + int(match[1])
        found.setdefault(rank, []).append(line)
    return found
