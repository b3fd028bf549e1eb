"""A fault at exactly one place: the N-th write operation of a process fails, is cut short, or is its last.

Operations are counted, not timed: a test first counts those of the work, then repeats it with the fault at each of
them in turn, in a child process.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import signal
from collections.abc import Callable
from typing import Any, Literal, get_args

import pytest

Fault = Literal["kill", "torn", "ENOSPC", "EMFILE", "EIO", "ENOLCK"]
FAULTS: tuple[Fault, ...] = get_args(Fault)

_WRITES = ("write", "pwrite", "fsync", "replace", "rename", "symlink", "mkdir", "mkfifo", "unlink", "rmdir")
_NEED_ROOM = {"open", "write", "pwrite", "fsync", "symlink", "mkdir", "mkfifo", "replace", "rename"}
#: Which operations a fault can hit.
_HITS: dict[Fault, set[str]] = {
    "kill": {"open", "flock", *_WRITES},
    "torn": {"write", "pwrite"},
    "ENOSPC": _NEED_ROOM,
    "EMFILE": {"open"},
    "EIO": {"open", *_WRITES},
    "ENOLCK": {"flock"},
}


class Counter:
    """Counts the operations that `fault` can hit, and lets it strike at number `at` (never, if that is 0)."""

    def __init__(self, fault: Fault, at: int = 0, *, lasting: bool = False) -> None:
        self.fault = fault
        self.at = at
        #: Does the fault stay (a disk that remains full), or does only one operation fail?
        self.lasting = lasting
        self.count = 0
        self._owner = os.getpid()

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in _WRITES:
            patch.setattr(os, name, self._wrapped(name, getattr(os, name)))
        patch.setattr(fcntl, "flock", self._wrapped("flock", fcntl.flock))
        patch.setattr(os, "open", self._opening(os.open))
        patch.setattr(builtins, "open", self._wrapped_open(builtins.open))

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operation(*args: Any, **options: Any) -> Any:
            if name in ("write", "pwrite") and not _is_file(args[0]):
                return real(*args, **options)  # a pipe or a socket is no part of the store
            self._strike(name, real, args)
            return real(*args, **options)

        return operation

    def _opening(self, real: Callable[..., int]) -> Callable[..., int]:
        def opening(path: Any, flags: int, *args: Any, **options: Any) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) or self.fault == "EMFILE":
                self._strike("open", real, ())
            return real(path, flags, *args, **options)

        return opening

    def _wrapped_open(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def opening(path: Any, mode: str = "r", *args: Any, **options: Any) -> Any:
            ours = isinstance(path, str) and "/jobs/" in path
            if ours and (set(mode) & set("wax+") or self.fault == "EMFILE"):
                self._strike("open", real, ())
            return real(path, mode, *args, **options)

        return opening

    def _strike(self, name: str, real: Callable[..., Any], args: tuple[Any, ...]) -> None:
        if name not in _HITS[self.fault] or os.getpid() != self._owner:
            return
        self.count += 1
        if not self.at or self.count < self.at or (self.count > self.at and not self.lasting):
            return
        if self.fault == "torn":
            data = bytes(args[1])
            real(args[0], data[: len(data) // 2], *args[2:])
        if self.fault in ("kill", "torn"):
            os.kill(os.getpid(), signal.SIGKILL)
        code = getattr(errno, self.fault)
        raise OSError(code, os.strerror(code))


def _is_file(descriptor: int) -> bool:
    import stat

    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def count_operations(work: Callable[[], object], fault: Fault) -> int:
    """How many operations of the work the fault can hit."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        counter = Counter(fault)
        with pytest.MonkeyPatch.context() as patch:
            counter.install(patch)
            work()
        os.write(writing, str(counter.count).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    return int(answer)


def strike(work: Callable[[], object], fault: Fault, at: int, *, lasting: bool = False) -> int:
    """Do the work in a child process with the fault at that operation.

    Returns 0 if it did all of it, 3 if it raised an error of ours, or minus the signal that ended it.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        import traceback

        from vcjob.errors import VcjobError

        code = 0
        with pytest.MonkeyPatch.context() as patch:
            Counter(fault, at, lasting=lasting).install(patch)
            try:
                work()
            except VcjobError:
                code = 3
            except BaseException:
                patch.undo()
                os.write(writing, traceback.format_exc().encode()[:60000])
                code = 70
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        trouble = pipe.read()
    status = os.waitpid(pid, 0)[1]
    assert not trouble, f"{fault} at operation {at}:\n{trouble}"
    return os.waitstatus_to_exitcode(status)
