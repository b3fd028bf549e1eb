"""Files of the job store: written atomically, so that neither a reader nor a crash nor a full disk leaves half a file.

Everything here raises StoreError with the path, the reason and, where there is one, a hint.
"""

from __future__ import annotations

import errno
import os
import select
from typing import TypeVar

import msgspec

from vcjob.errors import RunDamaged, StoreError
from vcjob.local.machine.folders import make_private, owner_hint

T = TypeVar("T")

PRIVATE_FILE = 0o600


def write_atomic(path: str, data: bytes, *, durable: bool = True) -> None:
    """Replace the content of `path`. At any moment a reader finds the old content or the new one, never a part of it.

    With `durable` this also holds after a power failure. Without it, write only what can be computed again.
    """
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE_FILE)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError as error:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise cannot_write(path, error) from error


def write_json(path: str, value: object, *, durable: bool = True) -> None:
    write_atomic(path, encode(value), durable=durable)


def encode(value: object) -> bytes:
    """JSON; names and values that are no UTF-8 (a path, an environment variable) are kept, as escapes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        import json

        return json.dumps(msgspec.to_builtins(value)).encode()


def decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError:
        if b"\\ud" not in data:
            raise
        import json

        return msgspec.convert(json.loads(data), kind)


def write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def append_line(path: str, value: object) -> None:
    """One more line of JSON, in a single write, so that lines of several writers never mix.

    A line that a full disk cut short is ended first, so that it cannot spoil this one.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        try:
            size = os.fstat(descriptor).st_size
            torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
            write_all(descriptor, (b"\n" if torn else b"") + encode(value) + b"\n")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise cannot_write(path, error) from error


def sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(path: str) -> None:
    """Make a folder that only its owner may enter; parents that are missing are made in the same way."""
    try:
        make_private(path)
    except OSError as error:
        raise cannot_write(path, error) from error


def read_bytes(path: str) -> bytes | None:
    """The content, or None where there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise cannot_read(path, error) from error


def read_json(path: str, kind: type[T]) -> T | None:
    data = read_bytes(path)
    if data is None:
        return None
    try:
        return decode(data, kind)
    except (ValueError, msgspec.DecodeError) as error:
        raise RunDamaged(f"the job store is damaged: {path}: {error}") from error


def read_lines(path: str, kind: type[T]) -> tuple[list[T], int]:
    """The lines of JSON of an append-only file, and how many of them are damaged and left out.

    A last line without its newline is still being written and counts as neither.
    """
    found: list[T] = []
    damaged = 0
    for line in filter(None, (read_bytes(path) or b"").split(b"\n")[:-1]):
        try:
            found.append(decode(line, kind))
        except (ValueError, msgspec.DecodeError):
            damaged += 1
    return found, damaged


def cannot_write(path: str, error: OSError) -> StoreError:
    hints = {
        errno.ENOSPC: "free some room on that disk, or set VCJOB_HOME to a folder on another one",
        errno.EDQUOT: "your disk quota is used up; set VCJOB_HOME to a folder on another disk",
        errno.EROFS: "set VCJOB_HOME to a folder that can be written",
        errno.EACCES: "set VCJOB_HOME to a folder that you may write",
        errno.EPERM: "set VCJOB_HOME to a folder that you may write",
        errno.ENOTDIR: "set VCJOB_HOME to a folder, not a file",
        errno.EEXIST: "set VCJOB_HOME to a folder, not a file",
    }
    reason = error.strerror or str(error)
    hint = _permission_hint(path, error) or hints.get(error.errno or 0)
    return StoreError(f"the job store cannot be written: {path}: {reason}", hint=hint)


def cannot_read(path: str, error: OSError) -> StoreError:
    return StoreError(
        f"the job store cannot be read: {path}: {error.strerror or error}", hint=_permission_hint(path, error)
    )


def _permission_hint(path: str, error: OSError) -> str | None:
    if error.errno not in (errno.EACCES, errno.EPERM):
        return None
    try:
        return owner_hint(path)
    except OSError:
        return None


def wait_readable(descriptor: int, seconds: float) -> bool:
    """Wait until a descriptor can be read. With poll: select fails in a process that has a thousand of them."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(1000 * seconds))
