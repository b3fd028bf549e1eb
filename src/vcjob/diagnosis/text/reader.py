"""Finds the tracebacks in the lines of a program, in one pass: `Reader`.

A progress bar may stand before the first line; groups of exceptions, frames of `rich`, cells of notebooks and errors
that Python ignores are recognised. Nothing is imported from the user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from vcjob.diagnosis.text.frames import Place, Traceback
from vcjob.diagnosis.text.noise import is_noise

_HEAD = "Traceback (most recent call last):"
_GROUP_HEAD = f"+ Exception Group {_HEAD}"
#: The head in a frame of `rich`.
_BOX_HEAD = re.compile(r"╭[─ ]+Traceback \(most recent call last\)")
#: What IPython prints, also within the error of a program that runs a notebook: the head, and the first line of a frame.
_CELL_HEAD = re.compile(r"^[A-Za-z_][\w.]{0,200} {2,200}Traceback \(most recent call last\)$")
_CELL_FRAME = re.compile(
    r"^(?:(?P<cell>Cell In ?\[\d{1,9}\]), line |File (?P<file>[^:]{1,1000}):)(?P<line>\d{1,9})(?:, in (?P<function>[\w.<>]{1,200}))?"
)
#: loguru marks the frame that caught the exception with `>`.
_FRAME = re.compile(r'^\s*(?:> )?File "(.+)", line (\d{1,9})(?:, in (.+))?$')
_EXCEPTION = re.compile(r"^[^\W\d][\w.]*(?:: |:?$)")
_SYNTAX_ERRORS = ("SyntaxError", "IndentationError", "TabError")
#: What Python prints above the traceback of an error that does not end the program: of a thread, or a process below it.
_IN_THREAD = re.compile(r"Exception in (?:thread|callback) |Process \S{1,200}:$")
#: The same of an error that it ignores.
_IGNORED = re.compile(
    r"Exception ignored |Error in atexit\._run_exitfuncs|--- Logging error ---|Error in sys\.excepthook"
    r"|(?:Task|Future) exception was never retrieved"
)
_CAUSED = "The above exception was the direct cause"
_CHAINED = re.compile(rf"During handling of the above exception|{_CAUSED}")
#: The traceback of a worker of a DataLoader, below the one of the process that uses it.
_WORKER_HEAD = f"Original {_HEAD}"
#: In the message of an error of torch's checkpoints: the traceback of the rank that raised it.
_NESTED_HEAD = f"{_HEAD} (RANK "
#: A message goes on in the next line where one ends like this; lines that are joined at most.
_GOES_ON, _JOINED = ":", 2
_NCCL_DETAIL = "Last error:"


class Block(NamedTuple):
    """A traceback and its lines, `start` to `end`; `said`: where its exception is. `kind`: "", "thread", "ignored".

    `chained`: the traceback before it is of the exception that led to this one; `caused`: that was raised from it.
    """

    start: int
    said: int
    end: int
    traceback: Traceback
    kind: str = ""
    chained: bool = False
    caused: bool = False


class Reader:
    """Finds the tracebacks in lines without prefixes, in one pass.

    `blocks` are those that are complete; `aside`: the places of lines about errors that do not end the program, of
    each kind of such errors.
    """

    def __init__(self, lines: Sequence[str], *, in_group: bool = False) -> None:
        self.lines = lines
        self._in_group = in_group
        self.blocks: list[Block] = []
        self.aside: dict[str, set[int]] = {"thread": set(), "ignored": set()}
        self._kind = ""  # of the traceback that may begin at this line
        self._chained = self._caused = False
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
        self._headless = self._boxed = self._in_cell = False
        self._caller: Place | None = None

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
            # rich's handler of logs indents it by its columns
            self._indent = len(line) - len(line.lstrip()) + 1
        elif _CELL_HEAD.match(line):
            self._begin(place)
            self._in_cell = True
        elif self._open and self._message:
            self._read_message(place, line)
        elif self._open and self._boxed and line.lstrip()[:1] in ("│", "╰"):
            self._read_box(line)
        elif self._open and line and self._read_inside(place, line):
            pass
        elif self._kind == "ignored" and line and self.lines[place - 1].strip() and _EXCEPTION.match(line):
            self.aside["ignored"].update((place - 1, place))  # printed without a traceback
            self._kind = ""
        else:
            self._read_outside(place, line)
        return place + 1

    def _begin(self, place: int) -> str:
        self._finish(place)
        self._start = place
        if self.lines[place].startswith(_WORKER_HEAD) and self.blocks:
            self._caller = self.blocks[-1].traceback.own_frame
        return self._kind

    def _read_message(self, place: int, line: str) -> None:
        if line and not line.startswith("=====") and not is_noise(line) and not _marks(line):
            self._message.append(line)
        elif self._awaits_text and not line.strip("-"):
            pass
        else:
            self._finish(place)
            self._read_outside(place, line)

    @property
    def _awaits_text(self) -> bool:
        """Whether only the name of the exception was read, and its message begins with an empty line."""
        return len(self._message) == 1 and self._message[0].endswith(":") and " " not in self._message[0]

    def _read_inside(self, place: int, line: str) -> bool:
        """A frame, its code, or the exception. False: the line belongs to no traceback."""
        indent = len(line) - len(line.lstrip())
        if match := _FRAME.match(line):
            if not self._frames:
                self._indent = indent or 1
            self._frames.append(_place(match))
        elif self._in_cell and (match := _CELL_FRAME.match(line)):
            place_of = match["cell"] or match["file"]
            self._frames.append(Place(place_of, int(match["line"]), match["function"] or ""))
        elif indent < self._indent and _EXCEPTION.match(line.lstrip()):
            if self._headless and not line.startswith(_SYNTAX_ERRORS):
                self._close()
                return False
            self._said, self._message = place, [line.strip()]
        elif self._headless and indent < self._indent:
            self._close()
            return False
        elif self._frames and not self._frames[-1].code and not self._in_cell:
            self._frames[-1] = msgspec.structs.replace(self._frames[-1], code=line.strip())
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
            self.aside[kind].add(place)
        elif _CHAINED.match(line):
            self._kind = self.blocks[-1].kind if self.blocks else ""
            self._chained = bool(self.blocks)
            self._caused = self._chained and line.startswith(_CAUSED)
            if self._kind:
                self.aside[self._kind].add(place)
        elif not line.startswith(("future: ", "handle: ")):
            self._kind = ""
            self._chained = self._caused = False

    def _finish(self, end: int) -> None:
        if self._open and self._message:
            frames = self._frames if self._caller is None else [self._caller, *self._frames]
            self._add(end, _traceback(frames, self._message))
        self._close()

    def _add(self, end: int, found: Traceback) -> None:
        self.blocks.append(
            Block(self._start, self._said, end, found, self._kind, self._chained, self._caused)
        )
        if self._kind:
            self.aside[self._kind].update(range(self._start, end))
        self._kind, self._chained, self._caused = "", False, False

    def _group(self, start: int, kind: str) -> int:
        """`| ` stands before every line of a group, and `+---` before each of its exceptions."""
        inside, place = [_HEAD], start + 1
        while place < len(self.lines) and (text := self.lines[place].lstrip())[:1] in ("|", "+"):
            inside.append(text[2:] if text.startswith("|") else "")
            place += 1
        found = [block.traceback for block in Reader(inside, in_group=True).blocks]
        if found:
            self._kind, self._said = kind, start
            self._add(place, _group(found, inside))
        self._close()
        return place


def _place(frame: re.Match[str]) -> Place:
    return Place(frame[1], int(frame[2]), frame[3] or "")


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
    """What went wrong is not always in the first line of the message.

    nccl's begins with where it was raised, and the reason stands below `Last error:`; that of torch's checkpoints holds
    a traceback; others end their first line with a colon.
    """
    exception, more = message[0], message[1:]
    joined = 0
    while more and joined < _JOINED and exception.endswith(_GOES_ON) and not more[0].startswith(_HEAD):
        exception, more, joined = f"{exception} {more[0].strip()}", more[1:], joined + 1
    if more and more[0].startswith(_NESTED_HEAD):
        said = next((place for place, line in enumerate(more) if place and _EXCEPTION.match(line)), None)
        if said is not None:
            inner = [_place(match) for match in map(_FRAME.match, more[:said]) if match]
            kind = exception.partition(":")[0]
            return Traceback((*frames, *inner), f"{kind}: {more[said]}", tuple(more[said + 1 :]))
    if _NCCL_DETAIL in more[:-1]:
        kind = exception.partition(":")[0]
        exception, more = f"{kind}: {more[more.index(_NCCL_DETAIL) + 1]}", message
    return Traceback(tuple(frames), exception, tuple(more))
