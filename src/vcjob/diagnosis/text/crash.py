"""What is printed where native code ends a process: the message of C++, and what Python's `faulthandler` adds.

`Suspect` asks for it where a signal ended a rank. Nothing is imported from the user's program, and any text is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vcjob.diagnosis.text.frames import Place
from vcjob.diagnosis.text.prefixes import plain

_FATAL = re.compile(r"^Fatal Python error: (.{1,1000})")
#: The frames below it are of the thread that crashed, innermost first; those of other threads stand above.
_STACK = re.compile(r"^(?:Current thread 0x[0-9a-f]{1,16}\b.{0,100}|Stack) \(most recent call first\):$")
_CRASH_FRAME = re.compile(r'^ {1,4}File "([^"]{1,4000})", line (\d{1,9}) in (.{1,300})$')
#: Of an exception in C++ that nobody caught; of glibc's checks of the heap, of `assert`, of glog and LLVM.
_WHAT = re.compile(
    r"^\s{0,8}what\(\):\s{0,8}(\S.{0,8000})"
    r"|^((?:(?:free|malloc|realloc|munmap_chunk)\(\): |double free or |corrupted (?:size vs|double-linked)|malloc_consolidate"
    r"|LLVM ERROR: |\*\*\* stack smashing|terminate called without|.{1,1000}: Assertion [`'].{1,1000}' failed"
    r"|F\d{4,8} \d\d:.{1,200}\] ).{0,1000})"
)


class Crash(NamedTuple):
    """What was printed last: the reason that Python gives, the frames of its thread, and the message of C++."""

    reason: str = ""
    frames: tuple[Place, ...] = ()
    what: str = ""

    @property
    def own_frame(self) -> Place | None:
        """The innermost frame in the user's own code, else the innermost one."""
        return next((frame for frame in self.frames if not frame.is_library), next(iter(self.frames), None))


def crash_of(lines: Iterable[str]) -> Crash:
    """What these lines say about a crash; empty where they say nothing."""
    said = [*map(plain, lines)]
    whats = [match for line in said if (match := _WHAT.match(line))]
    what = (whats[-1][1] or whats[-1][2]).rstrip() if whats else ""
    fatal = max((place for place, line in enumerate(said) if _FATAL.match(line)), default=None)
    if fatal is None:
        return Crash(what=what)
    match = _FATAL.match(said[fatal])
    return Crash(match[1].rstrip() if match else "", _frames(said[fatal + 1 :]), what)


def _frames(lines: Sequence[str]) -> tuple[Place, ...]:
    start = next((place for place, line in enumerate(lines) if _STACK.match(line)), len(lines))
    frames: list[Place] = []
    for line in lines[start + 1 :]:
        match = _CRASH_FRAME.match(line)
        if match is None:
            break
        frames.append(Place(match[1], int(match[2]), match[3]))
    return tuple(frames)
