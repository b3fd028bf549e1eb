"""When which part of a log file was written.

Containers write their logs by themselves, without times. The supervisor looks at the sizes now and then and
notes (time, size) beside each file. Losing it loses times, never a line. The notes grow ever rarer, so that
a run of weeks has an index of a megabyte.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left

_ENTRY = struct.Struct("<dQ")
_FINEST = 0.1
_SLOWDOWN = 10_000.0


class LogIndex:
    """The supervisor's side: samples the files of running containers."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._noted: dict[str, float] = {}
        self._began: dict[str, float] = {}

    def sample(self, paths: list[str], now: float, *, last: bool = False) -> bool:
        """Note the sizes that have changed; `last` for files that will not grow any more. Did any grow?"""
        grown = False
        for path in paths:
            try:
                size = os.stat(path).st_size
            except OSError:
                continue
            if size == self._sizes.get(path, 0):
                continue
            grown = True
            began = self._began.setdefault(path, now)
            pause = max(_FINEST, (now - began) / _SLOWDOWN)
            if last or now - self._noted.get(path, 0.0) >= pause:
                self._note(path, now, size)
        if last:
            for path in paths:
                for memory in (self._sizes, self._noted, self._began):
                    memory.pop(path, None)
        return grown

    def _note(self, path: str, now: float, size: int) -> None:
        self._sizes[path], self._noted[path] = size, now
        try:
            descriptor = os.open(index_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.write(descriptor, _ENTRY.pack(now, size))
            os.close(descriptor)
        except OSError:
            pass  # a full disk: the lines themselves matter more


def index_path(log: str) -> str:
    return f"{log}.times"


def read_index(log: str) -> list[tuple[float, int]]:
    """(time, size of the file at that time), oldest first."""
    try:
        with open(index_path(log), "rb") as file:
            data = file.read()
    except OSError:
        return []
    whole = len(data) - len(data) % _ENTRY.size
    return [(moment, size) for moment, size in _ENTRY.iter_unpack(data[:whole])]


def offset_at(log: str, moment: float) -> int:
    """Where the part begins that was written after `moment` (a little before it, never after)."""
    index = read_index(log)
    place = bisect_left(index, (moment, 0))
    return index[place - 1][1] if place else 0
