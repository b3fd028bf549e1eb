"""Moves the output of a container from its pipe into its log file.

The kernel moves the bytes (`splice`), so that at any moment each of them is either in the pipe or in the file:
whoever is killed in between loses none of them, and none of them passes through our memory. Where that does not
work (no Linux, a file system without it) they are read and written. A log that cannot be written does not stop the
container: its output is discarded, and the log says how much as soon as it can be written again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from vcjob.local.machine.files import PRIVATE_FILE, write_all

#: At most so many bytes are moved at a time.
PIECE = 1 << 20
EMPTY = -1


class LogWriter:
    """Appends the bytes of one pipe to one log file. `on_failure` gets the reason when output must be discarded.

    The pipe must not block; it is not closed here. There is one writer per log at any time: a container's shim,
    and after its death the supervisor.
    """

    def __init__(self, pipe: int, path: str, on_failure: Callable[[str], None]) -> None:
        self.pipe = pipe
        self._on_failure = on_failure
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        self.size = os.lseek(self._file, 0, os.SEEK_END)
        self._can_splice = hasattr(os, "splice")
        self._discarded = 0
        self._reason = ""

    def move(self) -> int:
        """Move what is in the pipe. Returns the number of bytes, 0 at its end, EMPTY where there is nothing now."""
        try:
            if self._discarded:
                self._write_gap()
            moved = self._splice() if self._can_splice else self._copy()
        except BlockingIOError:
            return EMPTY
        except OSError as error:
            if error.errno == errno.EINVAL and self._can_splice:
                self._can_splice = False
                return self.move()
            return self._discard(error)
        self.size += moved
        return moved

    def drain(self, most: int) -> bool:
        """Move all that is in the pipe, `most` bytes or a little more. Returns whether the pipe has ended."""
        while most > 0:
            moved = self.move()
            if moved <= 0:
                return moved == 0
            most -= moved
        return False

    def close(self) -> None:
        os.close(self._file)

    def _discard(self, error: OSError) -> int:
        if not self._reason:
            self._reason = error.strerror or str(error)
            self._on_failure(self._reason)
        try:
            lost = len(os.read(self.pipe, PIECE))
        except BlockingIOError:
            return EMPTY
        self._discarded += lost
        return lost

    def _write_gap(self) -> None:
        """Say in the log that output is missing here. Raises OSError while nothing can be written."""
        torn = self.size and os.pread(self._file, 1, self.size - 1) != b"\n"
        text = f"[... {self._discarded} bytes of output were lost here: {self._reason} ...]\n"
        data = (b"\n" if torn else b"") + text.encode()
        try:
            write_all(self._file, data)
        except OSError:
            os.ftruncate(self._file, self.size)
            os.lseek(self._file, self.size, os.SEEK_SET)
            raise
        self.size += len(data)
        self._discarded, self._reason = 0, ""

    def _splice(self) -> int:
        return os.splice(self.pipe, self._file, PIECE, flags=os.SPLICE_F_NONBLOCK)

    def _copy(self) -> int:
        data = os.read(self.pipe, PIECE)
        try:
            write_all(self._file, data)
        except OSError:
            written = os.lseek(self._file, 0, os.SEEK_CUR) - self.size
            self.size += written
            self._discarded += len(data) - written
            raise
        return len(data)
