"""Reads log files from where it stopped and merges their lines by the time at which they were received.

Both `read_all` (everything that exists now) and `Follower` (what is new) use it. Within a stream lines keep their
order. Streams of one container, and containers, are merged by their time indexes. Work is linear in the bytes read;
memory is bounded by the caller's budget and the longest line. A log that was deleted has no lines; one that cannot be
read raises StoreError.
"""

from __future__ import annotations

import heapq
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from vcjob.local.logs.index import IndexEntries, read_index
from vcjob.local.logs.retention import read_next
from vcjob.local.machine.files import cannot_read
from vcjob.report.logs import Chunk, LogOrigin

_PIECE = 1 << 18
#: Bytes that are read ahead of all files together.
_READ_AHEAD = 16 << 20
#: A longer line is shown as several lines.
LONGEST_LINE = 8 << 20
#: With more files than these each is opened for every piece: a process may usually have 1,024 open.
_MOST_OPEN = 256
#: An index entry this far in the future comes from a clock that was set back.
_CLOCK_STEP = 1.0
_TICK = 1e-6
#: The year 10000, which has no timestamp.
_END_OF_TIME = 253402300800.0


class LogFile(LogOrigin, frozen=True, kw_only=True, gc=False):
    """The file with one stream of one container instance.

    The reader and the follower find these files; everything but the path goes into the lines that users see.
    """

    path: str

    @property
    def instance(self) -> tuple[str, int, int, str, int]:
        return self.task, self.index, self.attempt, self.container, self.restart


class Lines:
    """Cuts a stream of bytes into whole lines; an unfinished line is kept until its rest arrives."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0
        self._cut = False

    def add(self, data: bytes) -> bytes:
        """The lines that are complete now, each with its line break."""
        if self._cut and data:
            data, self._cut = (
                data.removeprefix(b"\n"),
                False,
            )  # the break of a line that was cut right before it
        end = data.rfind(b"\n") + 1
        if end:
            whole = b"".join((*self._parts, data[:end]))
            self._parts, self._length = [data[end:]], len(data) - end
            return whole
        self._parts.append(data)
        self._length += len(data)
        if self._length < LONGEST_LINE:
            return b""
        self._cut = True
        return self.finish()

    @property
    def waiting(self) -> int:
        """The length of the unfinished line."""
        return self._length

    def finish(self) -> bytes:
        """The unfinished line, with a line break; empty where there is none."""
        rest = b"".join(self._parts)
        self._parts, self._length = [], 0
        return rest + b"\n" if rest else b""


class Cursor:
    """How far one log file has been read.

    Held by a `LogMerger`. The file may grow meanwhile, and old lines may be dropped from its beginning.
    """

    def __init__(self, file: LogFile, offset: int = 0) -> None:
        self.file = file
        self.offset = offset
        self.lines = Lines()
        #: Nothing more is written to this file.
        self.final = False
        self._skip = 0  # entries of the index that have been passed

    def unread_entries(self, before: float) -> IndexEntries:
        """The index entries for bytes that were not read yet, as far as they are not later than `before`."""
        entries = read_index(self.file.path, self._skip)
        passed = entries.after(self.offset)
        self._skip += passed
        stop = bisect_right(entries, before, key=lambda entry: entry[0])
        if stop < len(entries) and entries[stop][0] > before + _CLOCK_STEP:
            stop = len(entries)
        return entries.part(passed, stop)


class _Segment(NamedTuple):
    moment: float
    place: int
    end: int


class LogMerger:
    """Cursors into many log files. `read` returns new lines in the order of time.

    The reader uses it for existing logs, the follower also while they grow. It bounds what it reads at a time and how
    many files are open, and keeps no line.
    """

    def __init__(self, cursors: Iterable[Cursor] = ()) -> None:
        self.cursors = list(cursors)
        #: The last `read` stopped at its budget, before the end of the files.
        self.backlog = False

    def read(self, *, budget: float = float("inf"), follow: bool = False) -> Iterator[Chunk]:
        """Whole lines that are new, as far as about `budget` bytes. Use it up before the next call."""
        plan, open_files = self._plan(follow), _OpenFiles(len(self.cursors))
        self.backlog = False
        try:
            for segment in heapq.merge(*plan):
                cursor = self.cursors[segment.place]
                while cursor.offset < segment.end:
                    if budget <= 0:
                        self.backlog = True
                        return
                    data, after = open_files.read(cursor, min(_PIECE, segment.end - cursor.offset))
                    if not data:
                        break
                    budget -= after - cursor.offset
                    cursor.offset = after
                    if whole := cursor.lines.add(data):
                        known = 0 <= segment.moment < _END_OF_TIME  # else the index is damaged
                        moment = segment.moment if known else None
                        yield Chunk(cursor.file, whole, moment, cursor.offset - cursor.lines.waiting)
        finally:
            open_files.close()

    def finish(self, chosen: Callable[[Cursor], bool] = lambda _cursor: True) -> Iterator[Chunk]:
        """The unfinished last lines of the chosen files."""
        for cursor in self.cursors:
            if chosen(cursor) and (rest := cursor.lines.finish()):
                yield Chunk(cursor.file, rest, end=cursor.offset)

    def drop_finished(self) -> Iterator[Chunk]:
        """Forget the files that are final and were read to their end; returns their unfinished last lines."""
        done = {
            id(cursor)
            for cursor in self.cursors
            if cursor.final and cursor.offset >= _stat(cursor.file.path)[0]
        }
        if done:
            yield from self.finish(lambda cursor: id(cursor) in done)
            self.cursors = [cursor for cursor in self.cursors if id(cursor) not in done]

    def _plan(self, follow: bool) -> list[Iterator[_Segment]]:
        """What is to be read of each file that has grown.

        The order matters: first the sizes, then the time, then the indexes. At most one stream of a container has
        bytes without an index entry, and those are its newest. So whatever is written meanwhile is either read
        in its order now or left for the next call.
        """
        stats = [_stat(cursor.file.path) for cursor in self.cursors]
        before = time.time() if follow else float("inf")
        grown = {
            cursor.file.instance
            for cursor, (size, _) in zip(self.cursors, stats, strict=True)
            if size > cursor.offset
        }
        unread = {
            place: cursor.unread_entries(before)
            for place, cursor in enumerate(self.cursors)
            if cursor.file.instance in grown
        }
        newest: dict[object, float] = {}
        for place, entries in unread.items():
            if entries:
                instance = self.cursors[place].file.instance
                newest[instance] = max(newest.get(instance, 0.0), entries[-1][0])
        return [
            _segments(place, entries, stats[place], newest.get(self.cursors[place].file.instance, 0.0))
            for place, entries in unread.items()
        ]


def _segments(
    place: int, entries: IndexEntries, stat: tuple[int, float], newest: float
) -> Iterator[_Segment]:
    end = 0
    for moment, end in entries:
        yield _Segment(moment, place, end)
    size, changed = stat
    if end < size:
        yield _Segment(max(changed, newest + _TICK), place, size)


class _OpenFiles:
    """The files that one `read` reads, and the piece of each that was read ahead.

    Streams that alternate have segments of single lines, which must not cost system calls each. With very many files
    each is closed after every piece.
    """

    def __init__(self, count: int) -> None:
        self._keep = count <= _MOST_OPEN
        self._ahead = min(_PIECE, _READ_AHEAD // max(1, count))
        self._descriptors: dict[str, int] = {}
        self._pieces: dict[str, tuple[int, bytes]] = {}

    def read(self, cursor: Cursor, most: int) -> tuple[bytes, int]:
        """At most `most` bytes (or a line about a hole) and the offset after them; empty if the file was deleted."""
        path, offset = cursor.file.path, cursor.offset
        start, piece = self._pieces.get(path, (0, b""))
        if not start <= offset < start + len(piece):
            start, (piece, after) = offset, self._read_ahead(path, offset, most)
            if after != offset + len(piece):
                return piece, after  # a line in place of a hole
            if self._keep:
                self._pieces[path] = (start, piece)
        data = piece[offset - start : offset - start + most]
        return data, offset + len(data)

    def _read_ahead(self, path: str, offset: int, most: int) -> tuple[bytes, int]:
        try:
            descriptor = self._descriptors.get(path)
            if descriptor is None:
                descriptor = self._descriptors[path] = os.open(path, os.O_RDONLY)
            return read_next(descriptor, offset, max(most, self._ahead) if self._keep else most)
        except FileNotFoundError:
            return b"", offset
        except OSError as error:
            raise cannot_read(path, error) from error
        finally:
            if not self._keep:
                self.close()

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def _stat(path: str) -> tuple[int, float]:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return 0, 0.0
    except OSError as error:
        raise cannot_read(path, error) from error
    return stat.st_size, stat.st_mtime
