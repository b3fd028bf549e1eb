"""Processes that we did not wait for: who they are, whose children they are, how to end them all.

A pid by itself proves nothing, for the kernel uses it again: a process is (pid, start time). What a job
started carries the marks of `MARK_RUN` and `MARK_POD` in its environment, and keeps them through setsid,
double forks and exec.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

from vcjob.wellknown import environment

MARK_RUN = environment.RUN_UID
MARK_POD = environment.POD_UID
MARK_CONTAINER = environment.CONTAINER

# Looks at all processes, at most, on a machine where short ones come and go without end.
_LOOKS = 100
_PAUSE = 0.01


def start_time(pid: int) -> int | None:
    """When the process started, in ticks since boot; None where it is gone (or this is no Linux)."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def is_same(pid: int, started: int | None) -> bool:
    """Is this still the process that started then (and more than a zombie)?"""
    fields = _stat(pid)
    return fields is not None and fields[0] != "Z" and (started is None or int(fields[19]) == started)


def children(parent: int, meant: Callable[[int], bool] = lambda _pid: True) -> list[int]:
    """The direct children that have not ended, adopted orphans included; of them those that are `meant`.

    A child that ends between the listing and the look at it hands its own children on to us at that moment:
    where none that is meant is alive, the list must be the same once more before that is believed.
    """
    before: list[int] | None = None
    while True:
        pids = _listed_children(parent)
        alive = [pid for pid in pids if (_stat(pid) or ["Z"])[0] != "Z" and meant(pid)]
        if alive or pids == before:
            return alive
        before = pids


def _listed_children(parent: int) -> list[int]:
    try:
        with open(f"/proc/{parent}/task/{parent}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return [pid for pid in all_pids() if (_stat(pid) or ["", "0"])[1] == str(parent)]


def descendants(parent: int) -> list[int]:
    found: list[int] = []
    for child in children(parent):
        found.append(child)
        found.extend(descendants(child))
    return found


def name_of(pid: int) -> str:
    """The name that the process has given itself; empty where it has ended."""
    try:
        with open(f"/proc/{pid}/comm") as file:
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
    """The value of a variable in the environment the process was started with."""
    prefix = f"{mark}=".encode()
    for entry in _environment(pid).split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode(errors="replace")
    return None


def marked(mark: str, value: str) -> list[int]:
    """All processes on this machine, ours to read, that carry the mark and have not ended.

    A process may fork and end between the listing and the look at it, and one that is just being executed has
    no environment for a moment, which lasts while we keep it from its core. So where none is found, those that
    could not be read must be the same ones after a pause before that is believed.
    """
    own, entry = os.getpid(), f"{mark}={value}".encode()
    unread: set[int] | None = None
    for _ in range(_LOOKS):
        found, before, unread = [], unread, set()
        for pid in sorted(all_pids(), reverse=True):  # the newest first: they are the ones that are soon gone
            environment = _environment(pid)
            if not environment:
                unread.add(pid)
            elif pid != own and entry in environment.split(b"\0"):
                found.append(pid)
        if found or (before is not None and unread <= before):
            break
        time.sleep(_PAUSE)
    return found


def kill_until_gone(find: Callable[[], list[int]], patience: float = 5.0) -> list[int]:
    """Kill what `find` names until it names nothing: a process may fork while we look.

    Returns what is still there after `patience` seconds (a process the kernel does not let go).
    """
    deadline = time.monotonic() + patience
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
    """Empty where it cannot be read: somebody else's process, a zombie, one that is gone."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on; the second may hold spaces and brackets."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            text = file.read()
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
