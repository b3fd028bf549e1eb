"""The end of a log: its last lines, and when the last traceback in it was written.

Used for the diagnosis of a job. It reads a bounded part of the file and changes nothing; a log that cannot be read is
an empty one.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from vcjob.local.logs.index import read_index
from vcjob.local.logs.reader import tail_offset

_LARGEST = 64 * 1024
_TRACEBACK = b"Traceback (most recent call last):"


class Tail(NamedTuple):
    """`error_at`: when the last traceback began, where there is one and the log has a time index."""

    lines: tuple[str, ...] = ()
    error_at: float | None = None


def read_tail(path: str, count: int) -> Tail:
    """The last `count` lines, of at most 64 KiB; of a progress bar only its last state."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A line may be megabytes of a progress bar; only its end is shown.
            start = max(tail_offset(file.fileno(), size, count), size - _LARGEST)
            data = os.pread(file.fileno(), size - start, start)
    except OSError:
        return Tail()
    if not data:
        return Tail()
    lines = data.decode(errors="replace").removesuffix("\n").split("\n")
    shown = tuple(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)[-count:]
    begins = data.rfind(_TRACEBACK)
    return Tail(shown, None if begins < 0 else written_at(path, start + begins))


def written_at(path: str, offset: int) -> float | None:
    """When the byte at `offset` was received; None where the index does not cover it."""
    index = read_index(path)
    place = index.after(offset)
    return index[place][0] if place < len(index) else None
