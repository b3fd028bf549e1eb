"""The time index of a log: at what time each part of it was received.

A log file holds the bytes of one stream and nothing else; `LOG.times` next to it holds pairs of (time, size of the
log at that time). The process that writes a container's logs keeps the indexes of both streams (`ContainerIndex`);
readers use them to merge streams by time and for `--since`. Losing an index loses times, never a line.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import overload

from vcjob.local.machine.files import PRIVATE_FILE

_ENTRY = struct.Struct("<dQ")
#: Seconds between two entries of a stream that is the only one written to; it grows with the age of the log, so
#: that the index of a run of weeks stays below a megabyte.
_FINEST = 0.1
_SLOWDOWN = 10_000.0
#: Every change from one stream to the other is recorded until the index has this size.
LARGEST_INDEX = 4 << 20
_TICK = 1e-6


class ContainerIndex:
    """Writes the time indexes of the logs of one container instance.

    It keeps this invariant: at most one of the streams has bytes that no entry covers, and those are newer than
    everything that entries cover. So readers can restore the order in which bytes of both streams were received.
    An index that cannot be written (a full disk) is given up silently: the lines matter more.
    """

    def __init__(self, logs: Sequence[str]) -> None:
        self._streams = [_StreamIndex(log) for log in logs]
        self._now = 0.0

    def received(self, stream: int, size: int, now: float) -> None:
        """The log of this stream has grown to `size` at `now`."""
        self._now = max(now, self._now + _TICK)  # a clock that is set back must not change the order
        for number, other in enumerate(self._streams):
            if number != stream:
                other.record_switch()
        self._streams[stream].grew(self._now, size)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()


class _StreamIndex:
    def __init__(self, log: str) -> None:
        self._path = index_path(log)
        self._descriptor = -1
        self._bytes = 0
        self._began = 0.0
        self._recorded_at = 0.0
        self._pending: tuple[float, int] | None = None

    def grew(self, now: float, size: int) -> None:
        self._began = self._began or now
        self._pending = (now, size)
        if now - self._recorded_at >= max(_FINEST, (now - self._began) / _SLOWDOWN):
            self._record()

    def record_switch(self) -> None:
        if self._pending is not None and self._bytes < LARGEST_INDEX:
            self._record()

    def close(self) -> None:
        if self._pending is not None:
            self._record()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _record(self) -> None:
        assert self._pending is not None
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
            self._bytes += os.write(self._descriptor, _ENTRY.pack(*self._pending))
        except OSError:
            pass
        self._recorded_at, self._pending = self._pending[0], None


class IndexEntries(Sequence[tuple[float, int]]):
    """The entries of an index, decoded one by one: (time, size of the log at that time), oldest first.

    Readers of logs search it by time or by offset. It only looks at the bytes it was given, so it never fails while
    the log grows.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data) // _ENTRY.size

    @overload
    def __getitem__(self, place: int) -> tuple[float, int]: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[tuple[float, int]]: ...
    def __getitem__(self, place: int | slice) -> tuple[float, int] | Sequence[tuple[float, int]]:
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        moment, size = _ENTRY.unpack_from(self._data, place % len(self) * _ENTRY.size)
        return moment, size

    def __iter__(self) -> Iterator[tuple[float, int]]:
        whole = len(self) * _ENTRY.size
        return ((moment, size) for moment, size in _ENTRY.iter_unpack(self._data[:whole]))

    def part(self, start: int, stop: int) -> IndexEntries:
        return IndexEntries(self._data[start * _ENTRY.size : stop * _ENTRY.size])

    def after(self, offset: int) -> int:
        """The number of the first entry that covers bytes after `offset`."""
        return bisect_left(self, offset + 1, key=lambda entry: entry[1])


def index_path(log: str) -> str:
    return f"{log}.times"


def read_index(log: str, skip: int = 0) -> IndexEntries:
    """The index of a log, without its first `skip` entries; empty where there is none."""
    try:
        with open(index_path(log), "rb") as file:
            file.seek(skip * _ENTRY.size)
            return IndexEntries(file.read())
    except OSError:
        return IndexEntries(b"")


def offset_at(log: str, moment: float) -> int:
    """Where the part begins that was received after `moment` (a little before it, never after)."""
    index = read_index(log)
    place = bisect_left(index, (moment, 0))
    return index[place - 1][1] if place else 0
