"""Advisory file locks of the store: one holder at a time, released by the kernel when the holder's process ends.

Used by `RunDir` and `Store`. FileNotFoundError means that the folder of the lock was removed; every other failure is a
StoreError, with a hint where the file system has no locks at all.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time

from vcjob.errors import StoreError
from vcjob.local.machine import files

_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def hold(path: str, wait: float = 10.0) -> int:
    """Wait for the lock and return its descriptor; closing it releases the lock.

    Raises StoreError if another process still holds it after `wait` seconds.
    """
    deadline = time.monotonic() + wait
    while True:
        descriptor = try_hold(path, deadline - time.monotonic())
        if descriptor is None:
            raise StoreError(
                f"another vcjob command has held {path} for more than {wait:g} s",
                hint="is one stopped with Ctrl-Z? It keeps this lock until it continues (`fg`) or ends",
            )
        if _is_at(descriptor, path):
            return descriptor
        os.close(descriptor)  # the holder before us removed the file: a new one may stand in its place


def try_hold(path: str, wait: float = 0.03) -> int | None:
    """The lock's descriptor, or None if another process still holds it after `wait` seconds.

    A probe of `is_held` also holds it for some microseconds, so a single try proves nothing.
    """
    descriptor = _open(path)
    deadline, pause = time.monotonic() + wait, 0.001
    while not _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, path):
        if time.monotonic() > deadline:
            os.close(descriptor)
            return None
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return descriptor


def share(path: str) -> int | None:
    """A shared hold on the lock, or None where there can be none (a store that can only be read).

    It waits: nobody holds such a lock alone for longer than a probe of `is_held`.
    """
    try:
        descriptor = _open(path)
        _flock(descriptor, fcntl.LOCK_SH, path)
    except (FileNotFoundError, StoreError):
        return None
    return descriptor


def is_held(path: str, *, shared: bool = False) -> bool:
    """Does any process hold the lock? With `shared` a shared hold counts too."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise files.cannot_read(path, error) from error
    free = _flock(descriptor, (fcntl.LOCK_EX if shared else fcntl.LOCK_SH) | fcntl.LOCK_NB, path)
    os.close(descriptor)
    return not free


def check_supported(folder: str) -> None:
    """Raise StoreError where the file system of an existing folder has no locks."""
    import tempfile

    try:
        descriptor, path = tempfile.mkstemp(prefix=".vcjob-", dir=folder)
        os.unlink(path)
    except OSError as error:
        raise files.cannot_write(folder, error) from error
    _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
    os.close(descriptor)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, files.PRIVATE_FILE)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise files.cannot_write(path, error) from error


def _flock(descriptor: int, operation: int, path: str) -> bool:
    """False if somebody else holds the lock. The descriptor is closed when this raises."""
    try:
        fcntl.flock(descriptor, operation)
        return True
    except BlockingIOError:
        return False
    except OSError as error:
        os.close(descriptor)
        hint = None
        if error.errno in _NO_LOCKS:
            hint = "this file system has no file locks (flock); set VCJOB_HOME to a folder on a local disk"
        raise StoreError(f"the job store cannot be locked: {path}: {error.strerror}", hint=hint) from error


def _is_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
