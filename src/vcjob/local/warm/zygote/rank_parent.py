"""The rank parent: one small process per rank, between the zygote and the rank, that owns everything the rank starts.

As a subreaper it becomes the parent of what the rank leaves behind, also where that called setsid. When the rank
ends, or the client closes the connection, or the zygote dies, none of its processes is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import time
from typing import Any

from . import inheritance, program, protocol
from .imported_modules import ImportedModules
from .mounts_loader import enter_mounts
from .threads import set_threads

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_HANDLED = (signal.SIGCHLD, signal.SIGTERM)


def supervise(connection: socket.socket, imported: ImportedModules, zygote: int) -> program.Rank:
    """Serve one client: read its request, fork the rank, watch it. Returns only in the rank."""
    own_orphans()
    die_with_parent(signal.SIGTERM, zygote)
    wake = wake_on_signals()
    try:
        request, descriptors = protocol.receive(connection, 2)
    except (OSError, ValueError):
        os._exit(1)
    if request is None:
        os._exit(0)
    connection.settimeout(None)
    if "ask" in request:
        _reply(connection, _answer(request["ask"], imported))
        os._exit(0)
    if _hung_up(connection):
        os._exit(0)  # it waited for our imports no longer, and may have started the rank in another way
    reading, writing = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        connection.close()
        for descriptor in (reading, *wake):
            os.close(descriptor)
        die_with_parent(signal.SIGKILL, parent)
        return _become_rank(request, descriptors, imported, writing)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    for descriptor in (writing, *descriptors):
        os.close(descriptor)
    del request
    with os.fdopen(reading, "rb") as pipe:
        refused = pipe.read().decode(errors="replace")
    if refused:
        os.waitpid(pid, 0)
        _reply(connection, {"refused": refused.strip()})
        os._exit(0)
    _reply(connection, {"pid": pid})
    code = _watch(connection, pid, wake[0])
    _end_all(pid)
    if code is not None:
        _reply(connection, {"exit": code})
    os._exit(0)


def _hung_up(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def _answer(question: dict[str, Any] | None, imported: ImportedModules) -> dict[str, Any]:
    """Would a rank with this environment, started by this process, be served?"""
    if question is None:
        return {"fit": True}
    name = imported.other_environment(question["env"]) or inheritance.difference(
        imported.inherited, question["inherited"]
    )
    return {"refused": f"its {name} differs from the run's"} if name else {"fit": True}


def _become_rank(
    request: dict[str, Any], descriptors: list[int], imported: ImportedModules, report: int
) -> program.Rank:
    """In the new process: become the rank, or write why not and end."""
    try:
        os.setsid()
        time.sleep(request["start_delay"])  # before anything that would take a core from rank 0
        rank = program.Rank(**request["rank"])
        mismatch = inheritance.difference(imported.inherited, request["inherited"], free=_entered(request))
        if mismatch:
            raise program.Refusal(f"its {mismatch} differs from the run's")
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, number in ((null, 0), (descriptors[0], 1), (descriptors[1], 2)):
            os.dup2(descriptor, number)
        for descriptor in {null, *descriptors} - {0, 1, 2}:
            os.close(descriptor)
        for path in request["cgroups"]:
            with open(path, "w") as procs:
                procs.write("0")
        if request["mounts"]:
            enter_mounts(request["mounts"])
        os.chdir(request["cwd"])
        if request["umask"] is not None:
            os.umask(request["umask"])
        inheritance.set_limits(request["limits"])
        rank = program.check(rank, imported, request.get("threads"))
        program.become(rank)
        if request.get("threads"):
            set_threads(request["threads"], imported.math)
    except program.Refusal as refusal:
        _report(report, str(refusal))
    except Exception as error:
        _report(report, f"{type(error).__name__}: {error}")
    os.close(report)
    return rank


def _report(descriptor: int, why: str) -> None:
    os.write(descriptor, f"{why} ".encode())  # the space: an empty report would mean success
    os._exit(127)


def _entered(request: dict[str, Any]) -> tuple[str, ...]:
    """The settings that need not match, because the rank sets them itself."""
    return ("control group",) if request["cgroups"] else ()


def _watch(connection: socket.socket, pid: int, wake: int) -> int | None:
    """The rank's exit code (minus the signal that ended it); None if it was given up."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    waiting.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in waiting.poll():
            if descriptor != wake:
                return None  # a client says nothing more: it has closed the connection, or died
            if signal.SIGTERM in os.read(wake, 512):
                return None
        code = reap(pid)
        if code is not None:
            return code


def reap(pid: int) -> int | None:
    code = None
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if ended == 0:
            return code
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)


def _end_all(pid: int) -> None:
    """Kill the rank's group and whatever else has us as its parent, until nothing has."""
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    pause = 0.0005
    while True:
        reap(pid)
        left = children()
        if not left:
            return
        for child in left:
            with contextlib.suppress(OSError):
                os.kill(child, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def children() -> list[int]:
    own = os.getpid()
    try:
        with open(f"/proc/{own}/task/{own}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:  # a kernel without that file
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
                if int(file.read().rsplit(b")", 1)[1].split()[1]) == own:
                    found.append(int(name))
        return found


def _reply(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        protocol.send(connection, message)


def wake_on_signals() -> tuple[int, int]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in _HANDLED:
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
    return reading, writing


def own_orphans() -> None:
    """Orphans among our descendants become our children."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(number: int, parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    if os.getppid() != parent:  # it died before we asked
        os._exit(1)
