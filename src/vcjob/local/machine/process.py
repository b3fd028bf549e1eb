"""Processes: how to start one in a session of its own, and to identify, find and kill those that are not our children.

A pid alone does not identify a process, because the kernel reuses it: a process is (pid, start time). Processes of a
job carry the variables `MARK_RUN` and `MARK_POD` in their environment, and keep them through setsid, double forks and
exec. Needs /proc; elsewhere nothing is found.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from vcjob.wellknown import environment

MARK_RUN = environment.RUN_UID
MARK_POD = environment.POD_UID
MARK_CONTAINER = environment.CONTAINER
#: The name of a pod's shim: the process that reads the output of the pod's containers.
SHIM_NAME = "vcjob-pod"

# How often all processes are listed at most, on a machine where short-lived ones start and end all the time.
_LOOKS = 100
_PAUSE = 0.01


def spawn_session(path: str, argv: list[str], env: Mapping[str, str], **options: Any) -> int:
    """Start a process that leads a session of its own, so that neither Ctrl-C nor the end of a terminal reaches it.

    A Python that was built with a C library before 2.26, as conda's and most of uv's are, cannot ask for that: the program
    calls `os.setsid` with its first instructions where it does not lead a session yet. `options` are those of
    `os.posix_spawn`; OSError where it cannot be started.
    """
    try:
        return os.posix_spawn(path, argv, env, setsid=True, **options)
    except NotImplementedError:
        return os.posix_spawn(path, argv, env, **options)


def stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; None if the process has ended.

    The second field is the name: it may hold spaces and brackets, and the kernel may have cut it within a character.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return None


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None if it has ended or this is not Linux."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def is_same(pid: int, started: int | None) -> bool:
    """Whether this is still the process that started then, and not a zombie."""
    fields = stat_fields(pid)
    return fields is not None and fields[0] != "Z" and (started is None or int(fields[19]) == started)


def children(parent: int, predicate: Callable[[int], bool] = lambda _pid: True) -> list[int]:
    """The direct children that have not ended, including adopted orphans, for which `predicate` is true.

    A child that ends between the listing and the check passes its own children on to us at that time: if no child
    is found, the list must be the same a second time before the result is used.
    """
    before: list[int] | None = None
    while True:
        pids = _listed_children(parent)
        alive = [pid for pid in pids if (stat_fields(pid) or ["Z"])[0] != "Z" and predicate(pid)]
        if alive or pids == before:
            return alive
        before = pids


def _listed_children(parent: int) -> list[int]:
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return [pid for pid in all_pids() if (stat_fields(pid) or ["", "0"])[1] == str(parent)]


def descendants(parent: int) -> list[int]:
    found: list[int] = []
    for child in children(parent):
        found.append(child)
        found.extend(descendants(child))
    return found


def name_of(pid: int) -> str:
    """The name that the process has given itself; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/comm", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def all_pids() -> Iterator[int]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit():
            yield int(name)


def mark_of(pid: int, mark: str) -> str | None:
    """The value of a variable in the initial environment of the process."""
    prefix = f"{mark}=".encode()
    for entry in _environment(pid).split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def marked(mark: str, *values: str) -> list[int]:
    """All processes of this user that carry the mark with one of these values and have not ended.

    A process may fork and end between the listing and the check, and one that is just being executed has no
    environment yet. So if none is found, the processes that could not be read must be the same ones after a pause
    before the result is used.
    """
    own, entries = os.getpid(), {f"{mark}={value}".encode() for value in values}
    unread: set[int] | None = None
    for _ in range(_LOOKS):
        found, before, unread = [], unread, set()
        for pid in sorted(all_pids(), reverse=True):  # the newest first: they end soonest
            environment = _environment(pid)
            if not environment:
                unread.add(pid)
            elif pid != own and not entries.isdisjoint(environment.split(b"\0")):
                found.append(pid)
        if found or (before is not None and unread <= before):
            break
        time.sleep(_PAUSE)
    return found


def kill_until_gone(find: Callable[[], list[int]]) -> list[int]:
    """Kill what `find` returns until it returns nothing: a process may fork meanwhile.

    Returns what still exists after five seconds (a process that the kernel cannot end).
    """
    deadline = time.monotonic() + 5.0
    pause = 0.001
    while True:
        pids = find()
        if not pids or time.monotonic() > deadline:
            return pids
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        time.sleep(pause)
        pause = min(pause * 2, 0.05)


def _environment(pid: int) -> bytes:
    """Empty if it cannot be read: a process of another user, a zombie, one that has ended."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""
