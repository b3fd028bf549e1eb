"""What a process and its children do, from /proc: whether they use CPU, move data or wake up. Linux only.

Used by the supervisor's watch for hangs, and by the agent in a rank about its own process. It imports nothing of vcjob:
in a pod it is a file of its own. A process that cannot be read does nothing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

#: Below these rates, per second, a process counts as idle. gloo's thread alone uses half a percent of a core.
_CPU = 0.02
#: The kernel counts in hundredths of a second; two of them are not counted.
_RESOLUTION = 0.02
_WAKEUPS = 8.0
_BYTES = 4096.0
_PAGES = 256.0
_PAUSED = frozenset("Tt")
_RUNNABLE = frozenset("RD")
#: At most so many processes of one rank are examined.
_MOST = 512
#: Threads of torch that wake up all the time, whatever the program does.
_OF_TORCH = ("gloo_", "pt_", "cuda")


class ActivitySample(NamedTuple):
    """Sums over a process and its descendants, and how much the process has printed.

    The watch for hangs compares two samples: they tell a rank that waits from one that works.
    """

    at: float
    cpu_seconds: float
    children_cpu_seconds: float
    wakeups: int
    moved_bytes: int
    pages: int
    printed: int
    paused: bool
    #: One of them waits for a core or a disk at this moment, and so does something, however little CPU it gets.
    runnable: bool

    def is_idle_since(self, before: ActivitySample) -> bool:
        """Whether nothing happened between the two samples."""
        seconds = max(self.at - before.at, 1e-3)
        return (
            not self.runnable
            and self.cpu_seconds - before.cpu_seconds <= _CPU * seconds + _RESOLUTION
            and abs(self.wakeups - before.wakeups) / seconds < _WAKEUPS
            and self.has_no_effect_since(before)
        )

    def has_no_effect_since(self, before: ActivitySample) -> bool:
        """Whether nothing but CPU time was used: no data, no output, no memory, no work of a child process."""
        seconds = max(self.at - before.at, 1e-3)
        return (
            self.printed == before.printed
            and abs(self.moved_bytes - before.moved_bytes) / seconds < _BYTES
            and abs(self.pages - before.pages) / seconds < _PAGES
            and self.children_cpu_seconds - before.children_cpu_seconds <= _CPU * seconds + _RESOLUTION
        )


def sample(pid: int, printed: int, now: float, observer: int | None = None) -> ActivitySample | None:
    """None where the process has ended. `observer`: the thread of the process that takes the sample; what it reads for
    that does not count."""
    own = _read(pid)
    if own is None:
        return None
    cpu = children = wakeups = pages = 0
    moved = 0 if observer is None else -_moved_bytes(f"{pid}/task/{observer}")
    states = set()
    for each in _tree(pid):
        read = own if each == pid else _read(each)
        if read is None:
            continue
        states.add(read.state)
        cpu += read.cpu
        children += read.cpu if each != pid else 0
        pages += read.pages
        wakeups += _wakeups(each)
        moved += _moved_bytes(str(each))
    ticks = os.sysconf("SC_CLK_TCK")
    return ActivitySample(
        at=now,
        cpu_seconds=cpu / ticks,
        children_cpu_seconds=children / ticks,
        wakeups=wakeups,
        moved_bytes=moved,
        pages=pages,
        printed=printed,
        paused=own.state in _PAUSED,
        runnable=not states.isdisjoint(_RUNNABLE),
    )


class _Process(NamedTuple):
    """One process: CPU time in ticks, resident memory in pages."""

    state: str
    parent: int
    cpu: int
    pages: int


def _read(pid: int) -> _Process | None:
    """None where the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name before it may contain spaces and brackets
    if fields[0] == "Z":
        return None
    return _Process(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[21]))


def _tree(pid: int) -> list[int]:
    """The process and its descendants, bounded."""
    found = [pid]
    for each in found:
        if len(found) >= _MOST:
            break
        found += _children(each)
    return found[:_MOST]


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:  # a kernel without this file
        processes = ((int(name), _read(int(name))) for name in os.listdir("/proc") if name.isdigit())
        return [child for child, read in processes if read is not None and read.parent == pid]


def _wakeups(pid: int) -> int:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return 0
    total = 0
    for each in threads:
        fields = _fields(f"/proc/{pid}/task/{each}/status")
        if not fields.get("Name", "").startswith(_OF_TORCH):
            total += int(fields.get("voluntary_ctxt_switches", 0))
    return total


def _moved_bytes(task: str) -> int:
    fields = _fields(f"/proc/{task}/io")
    return int(fields.get("rchar", 0)) + int(fields.get("wchar", 0))


def _fields(path: str) -> dict[str, str]:
    """The lines `Name: value` of a file in /proc; empty where the process has ended."""
    try:
        with open(path, errors="replace") as file:
            lines = file.read().split("\n")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
