"""How much disk space the logs of a job may take, and how old lines are removed.

Log files are not rotated: offsets in a log, its time index and those who follow it stay valid. Instead a part in the
middle of a long log is removed (a hole): sizes and offsets stay, the writer notices nothing, and readers show a line
in place of the hole. The first lines are kept (how the program was started), and so are the newest.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping

from vcjob.errors import UserError
from vcjob.spec import quantity
from vcjob.wellknown import environment

VARIABLE = environment.LOG_LIMIT
_DEFAULT = "10Gi"
_FIRST = 1 << 16
_BLOCK = 4096
_PUNCH = 0x01 | 0x02  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
_EVERY = 1.0
_FASTEST_GROWTH = 1 << 30  # bytes per second that the logs of a job are assumed to grow at most

_libc = ctypes.CDLL(None, use_errno=True)


def limit_of(env: Mapping[str, str]) -> int:
    """The limit in bytes; 0 for no limit. Raises UserError for a value that is not an amount."""
    given = env.get(VARIABLE) or _DEFAULT
    try:
        limit = quantity.parse(given).value
    except ValueError:
        limit = -1
    if limit < 0:
        raise UserError(
            f"{VARIABLE}={given!r} is not an amount of disk space", hint="for example 10Gi; 0 for no limit"
        )
    return limit


class LogRetention:
    """Keeps the logs of one run below the limit; the supervisor calls `check`. `warn` gets each message once or more.

    If old lines cannot be removed on this file system, it warns and no longer checks.
    """

    def __init__(self, folder: str, limit: int, warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._limit = limit
        self._warn = warn

    def check(self) -> float | None:
        """Remove old lines if the logs take more than the limit. Returns the seconds until the next check is due,
        or None when no further check is needed."""
        if not self._limit:
            return None
        # Listing thousands of files takes a while, and must never take a noticeable part of a core. The time of the
        # removal does not count: the further above the limit the logs are, the longer it takes, and the sooner the
        # next check must come. And logs that are far below the limit need a while to reach it.
        began = time.thread_time()
        used = dict(_logs(self._folder))
        cost = time.thread_time() - began
        if sum(used.values()) > self._limit:
            self._make_room(used)
        return max(_EVERY, 100 * cost, (self._limit - sum(used.values())) / _FASTEST_GROWTH)

    def _make_room(self, used: dict[str, int]) -> None:
        """Halve the longest log until a quarter of the limit is free."""
        candidates = set(used)
        while candidates and sum(used.values()) > self._limit * 3 // 4:
            path = max(candidates, key=lambda each: used[each])
            if used[path] < 4 * _FIRST:
                break  # very many small logs: there is nothing to remove from any of them
            try:
                freed = _remove_older_half(path, used[path])
            except OSError:
                self._limit = 0
                self._warn(
                    f"the logs of this job take more than {VARIABLE}, and old lines cannot be dropped on this file system"
                )
                return
            if freed <= 0:  # the file system (XFS) reserves blocks behind the end of the file
                candidates.remove(path)
                continue
            used[path] -= freed
            self._warn(
                f"the logs of this job have reached {VARIABLE}: the oldest lines of the longest are dropped"
            )


def _logs(folder: str) -> Iterator[tuple[str, int]]:
    """Every log file, POD/ATTEMPT/CONTAINER.RESTART.STREAM, with its disk usage. Deeper folders are volumes."""
    for pod in _entries(folder):
        for attempt in _entries(pod.path):
            for entry in _entries(attempt.path):
                if entry.name.endswith((".out", ".err")) and entry.is_file(follow_symlinks=False):
                    yield entry.path, entry.stat().st_blocks * 512


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _remove_older_half(path: str, used: int) -> int:
    """Returns how many bytes were freed."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        size = os.fstat(descriptor).st_size
        end = max(0, size - (min(used, size) - _FIRST) // 2) // _BLOCK * _BLOCK
        punch_hole(descriptor, _FIRST, end)
        return used - os.fstat(descriptor).st_blocks * 512
    finally:
        os.close(descriptor)


def punch_hole(descriptor: int, start: int, end: int) -> None:
    """Free this part of the file: it becomes a hole."""
    if not hasattr(_libc, "fallocate"):
        raise OSError("this system cannot punch holes")
    offset, length = ctypes.c_int64(start), ctypes.c_int64(end - start)
    if end > start and _libc.fallocate(descriptor, _PUNCH, offset, length) != 0:
        raise OSError(ctypes.get_errno(), "cannot punch a hole")


def next_data(descriptor: int, offset: int) -> tuple[int, int]:
    """Where the next bytes that were not removed begin, at `offset` or after a hole, and where they end."""
    try:
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
        return start, os.lseek(descriptor, start, os.SEEK_HOLE)
    except OSError:  # the end of the file
        return offset, offset


def read_next(descriptor: int, offset: int, most: int) -> tuple[bytes, int]:
    """The next bytes of a log and the offset after them. For a hole it is a line that says what was removed."""
    start, end = next_data(descriptor, offset)
    if start == offset:
        data = os.pread(descriptor, min(most, end - offset), offset)
        start, _ = next_data(descriptor, offset)
        if start == offset:  # else it was removed while we read it
            return data, offset + len(data)
    before = os.pread(descriptor, 1, offset - 1) if offset else b"\n"
    torn = b"" if before in (b"\n", b"\0") else b"\n"
    amount = f"{(start - offset) / 2**20:,.1f} MiB"
    line = f"[... {amount} of older lines were dropped here, to stay within {VARIABLE} ...]\n".encode()
    return torn + line, _next_line(descriptor, start)


def _next_line(descriptor: int, offset: int) -> int:
    while True:
        piece = os.pread(descriptor, 1 << 16, offset)
        cut = piece.find(b"\n")
        if cut >= 0 or not piece:
            return offset + cut + 1
        offset += len(piece)
