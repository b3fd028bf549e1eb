"""Starts a zygote and holds the owner's end of it: connect a rank, wait for its imports, read its log, end it.

The supervisor (through `WarmLauncher`) and `vcjob warm start` are the owners.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

from vcjob.local.machine import files, linux, process
from vcjob.local.machine.folders import make_private
from vcjob.local.warm.zygote import protocol

#: What nearly every rank imports first; a name that is not installed is left out.
DEFAULT_IMPORTS = ("torch", "torch.distributed", "numpy")

_LOOK, _MOST_LOOKS = 0.001, 50
_MAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zygote", "main.py")


class Recipe(NamedTuple):
    """What distinguishes one zygote from another: interpreter, options, environment, imports.

    Ranks with the same recipe can come from the same zygote.
    """

    interpreter: str
    options: tuple[str, ...]
    env: Mapping[str, str]
    imports: tuple[str, ...] = DEFAULT_IMPORTS


class ZygoteHandle:
    """A zygote that this process has started. It ends when every copy of `control` is closed.

    The warm launcher keeps one per recipe. A zygote that dies is no error: its ranks are started normally from then
    on.
    """

    def __init__(self, pid: int, control: socket.socket, log: int) -> None:
        self.pid = pid
        self._control = control
        self._log = log
        self._end = linux.process_descriptor(pid)  # a pid may be reused once the process has been reaped

    def connect(self) -> socket.socket:
        """A connection for one rank. It can be used at once; answers come when the imports are done."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"."], [theirs.fileno()])
            except OSError:
                pass  # it is dead, and so will the connection be: the reader sees its end
        return ours

    def wait_ready(self) -> dict[str, Any]:
        """Its report after the imports; empty if it died before that."""
        try:
            message, _ = protocol.receive(self._control)
        except (OSError, ValueError):
            message = None
        return message or {}

    def log(self) -> str:
        """What it, or a module it imported, wrote."""
        return os.pread(self._log, 1 << 16, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """Release it: it ends once its last rank has ended."""
        self._control.close()
        os.close(self._log)
        os.close(self._end)

    def end(self) -> None:
        """Kill the zygote and the ranks that it still serves. Returns once the kernel has begun to end it.

        The kernel needs a while to free its half gigabyte of memory; there is no need to wait for that.
        """
        with contextlib.suppress(ProcessLookupError):
            linux.kill_process(self._end)
        for _ in range(_MOST_LOOKS):
            if files.wait_readable(self._end, _LOOK) or not _has_memory(self.pid):
                break
        self.close()


def _has_memory(pid: int) -> bool:
    """Whether a killed process still holds memory, or is only an entry in the process table until it is reaped."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            return file.read().split()[0] != "0"
    except OSError:
        return False


def start(
    recipe: Recipe, empty: str, *, listening: socket.socket | None = None, idle: float | None = None
) -> ZygoteHandle:
    """Start one: in a session of its own, in the folder `empty`, with exactly this environment.

    Raises OSError where the interpreter cannot be run.
    """
    make_private(empty)
    control, theirs = socket.socketpair()
    log = _nameless_file()
    config: dict[str, Any] = {
        "control": 3,
        "imports": list(recipe.imports),
        "folder": empty,
        "idle": idle,
    }
    # Numbers 3 and 4 may be taken by the very sockets that are to be put there: work on copies above them.
    high = [os.dup(theirs.fileno()), *([os.dup(listening.fileno())] if listening else [])]
    high = [_above(descriptor, 16) for descriptor in high]
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        (os.POSIX_SPAWN_DUP2, high[0], 3),
    ]
    if listening:
        config["listening"] = 4
        actions.append((os.POSIX_SPAWN_DUP2, high[1], 4))
    try:
        pid = process.spawn_session(
            recipe.interpreter,
            [recipe.interpreter, *recipe.options, _MAIN, json.dumps(config)],
            dict(recipe.env),
            file_actions=actions,
            setsigmask=[],
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except OSError:
        control.close()
        os.close(log)
        raise
    finally:
        theirs.close()
        for descriptor in high:
            os.close(descriptor)
    return ZygoteHandle(pid, control, log)


def _nameless_file() -> int:
    """A descriptor of an empty file without a name, in memory where this Python can make one."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("vcjob-warm", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _above(descriptor: int, lowest: int) -> int:
    """A copy of the descriptor with a number of at least `lowest`; the original is closed."""
    import fcntl

    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest)
    finally:
        os.close(descriptor)
