"""Room on the disk that a run keeps in reserve, so that its end can be written when the disk is full.

`RunDir` writes through it; the supervisor takes the room again when the disk has room, and gives it up when it ends.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from vcjob.errors import StoreError
from vcjob.local.machine import files

_BYTES = 128 << 10


class Reserve:
    """A file that keeps room on the disk free at `path`, as long as the room is not needed.

    `RunDir` writes through it, so that the end of a run can be recorded on a full disk. StoreError if even that
    fails.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def take(self) -> None:
        """Allocate the room; StoreError if the disk is full."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT, files.PRIVATE_FILE)
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(descriptor, 0, _BYTES)
                else:
                    files.write_all(descriptor, bytes(_BYTES))
            finally:
                os.close(descriptor)
        except OSError as error:
            self.release()
            raise files.cannot_write(self._path, error) from error

    def release(self) -> bool:
        """Give the room up; False if none was left."""
        try:
            os.unlink(self._path)
        except OSError:
            return False
        return True

    def exists(self) -> bool:
        return os.path.exists(self._path)

    def write(self, write: Callable[[], None]) -> None:
        """Call `write`; if the disk is full, again with the room that was reserved for it."""
        try:
            write()
        except StoreError as error:
            cause = error.__cause__
            full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
            if not full or not self.release():
                raise
            write()
