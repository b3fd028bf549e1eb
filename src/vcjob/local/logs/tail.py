"""The end of a log: its last lines, and when they and the last traceback in it were written.

Used for the diagnosis of a job. It reads a bounded part of the file and changes nothing; a log that cannot be read is
an empty one.
"""

from __future__ import annotations

import heapq
import math
import os
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from vcjob.local.logs.index import IndexEntries, read_index
from vcjob.local.logs.reader import tail_offset

#: Bytes that are read, and what is kept of them: characters in all, and of one line where there are more.
_READ, _LARGEST, _LONGEST_LINE = 512 * 1024, 64 * 1024, 4096
_TRACEBACK = b"Traceback (most recent call last):"


class Tail(NamedTuple):
    """`error_at`: when the last traceback began, where there is one and the log has a time index. `times`: when each
    line had arrived; empty without an index.
    """

    lines: tuple[str, ...] = ()
    error_at: float | None = None
    times: tuple[float, ...] = ()


def read_tail(path: str, count: int) -> Tail:
    """The last `count` lines, of at most 64 KiB; of a progress bar only its last state, of long lines the beginning."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A line may be megabytes of a progress bar; only its end is shown.
            start = tail_offset(file.fileno(), size, count, max(0, size - _READ))
            data = os.pread(file.fileno(), size - start, start)
    except OSError:
        return Tail()
    if not data:
        return Tail()
    lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    shown = _bounded([line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines][-count:])
    index = read_index(path)
    begins = data.rfind(_TRACEBACK)
    error_at = _written_at(index, start + begins) if begins >= 0 else math.inf
    return Tail(shown, error_at if error_at < math.inf else None, _times(index, data, start, len(shown)))


def _bounded(lines: list[str]) -> tuple[str, ...]:
    """The newest lines of 64 KiB. Where that is not enough, a long one keeps its beginning, which names the error: that
    of `load_state_dict` names every key."""
    if sum(map(len, lines)) <= _LARGEST:
        return tuple(lines)
    cut = [line[:_LONGEST_LINE] for line in lines]
    sizes = list(accumulate(map(len, reversed(cut))))
    return tuple(cut[len(cut) - bisect_right(sizes, _LARGEST) :])


def merged(one: Tail, other: Tail) -> tuple[str, ...]:
    """The lines of two streams in the order in which they arrived; empty where that was not recorded."""
    if not one.times or not other.times:
        return ()
    both = heapq.merge(
        zip(one.times, one.lines, strict=True),
        zip(other.times, other.lines, strict=True),
        key=lambda each: each[0],
    )
    return tuple(line for _, line in both)


def _times(index: IndexEntries, data: bytes, start: int, count: int) -> tuple[float, ...]:
    """When the ends of the last `count` lines of `data` had arrived."""
    if not len(index):
        return ()
    times, end = [], len(data) - data.endswith(b"\n")
    for _ in range(count):
        times.append(_written_at(index, start + end - 1) if end > 0 else 0.0)
        end = data.rfind(b"\n", 0, max(0, end))
    return tuple(reversed(times))


def _written_at(index: IndexEntries, offset: int) -> float:
    """When the byte at `offset` was received; infinite where it is newer than the index."""
    place = index.after(offset)
    return index[place][0] if place < len(index) else math.inf
