"""Which containers the kernel's out-of-memory killer ended, by the counters that the kernel keeps.

One `MemoryKills` per pod, in its shim. Counters are read when a container starts and when it has failed, never in
between. A cgroup of the container's own has its limit; without one, the container is in the cgroup of the supervisor,
and the whole machine or an enclosing cgroup had no memory left. Where no counter can be read, no kill is reported.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import NamedTuple

from vcjob.report.podstate import OOM_KILLED

ROOT = "/sys/fs/cgroup"
MACHINE = "/proc/vmstat"
#: Version 1 writes "no limit" as a number near 2^63.
_NO_LIMIT = 1 << 60


class Counts(NamedTuple):
    """Processes of a cgroup that the kernel killed, and how often the cgroup reached its own limit."""

    killed: int = 0
    full: int = 0


class MemoryKill(NamedTuple):
    """The reason of a container that ended because memory ran out, and a message where no limit of its own says why."""

    reason: str
    message: str | None = None


class MemoryKills:
    """Compares the counters of a pod's containers at their start and at their end.

    `own_cgroup` gives the cgroup that limits a container's memory, or an empty text. `shared` is the file that counts
    kills for all other containers, see `shared_counter`.
    """

    def __init__(self, own_cgroup: Callable[[str], str] = lambda _: "", shared: str = MACHINE) -> None:
        self._own_cgroup = own_cgroup
        self._shared = shared
        self._before: dict[str, Counts] = {}

    def started(self, container: str) -> None:
        self._before[container] = self._counts(self._own_cgroup(container))

    def reason(self, container: str, exit_code: int, lines: Sequence[str]) -> MemoryKill | None:
        """Why a container that ended badly did so, where memory is the reason.

        `exit_code` is negative for a signal; `lines` are the last ones of its stderr. As on a cluster, a kill in a cgroup
        of its own is its reason. Elsewhere another rank may have been killed, so that its end must show a kill.
        """
        own = self._own_cgroup(container)
        before, now = self._before.get(container, Counts()), self._counts(own)
        if now.killed <= before.killed:
            return None
        if own and now.full > before.full:
            return MemoryKill(OOM_KILLED)
        if exit_code in (-signal.SIGKILL, 128 + signal.SIGKILL) or _shows_a_kill(lines):
            from vcjob.wellknown.causes import HOST_OUT_OF_MEMORY

            return MemoryKill(HOST_OUT_OF_MEMORY, _where(own or os.path.dirname(self._shared)))
        return None

    def _counts(self, own: str) -> Counts:
        return cgroup_counts(own, "memory.events") if own else Counts(_count(self._shared, "oom_kill"))


def shared_counter() -> str:
    """The file that counts kills in the cgroup of this process; the one of the machine where there is none."""
    for line in read_kernel_file("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = os.path.join(ROOT, "memory") if controllers else ROOT
        for folder in (root + path.rstrip("/"), root):  # a container may see only its own part of the tree
            for name in ("memory.events.local", "memory.oom_control"):
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    return path
    return MACHINE


def cgroup_counts(folder: str, events: str) -> Counts:
    """The counters of one cgroup, of either version; `events`: with or without the cgroups below it."""
    path = os.path.join(folder, events)
    if os.path.exists(path):
        return Counts(_count(path, "oom_kill"), _count(path, "oom"))
    killed = _count(os.path.join(folder, "memory.oom_control"), "oom_kill")
    return Counts(killed, _number(os.path.join(folder, "memory.failcnt")))


def _shows_a_kill(lines: Sequence[str]) -> bool:
    from vcjob.diagnosis.rules.exits import shows_a_killed_child  # slow to import; only failures need it

    return shows_a_killed_child(lines)


def _where(folder: str) -> str:
    """What had no memory left: the first enclosing cgroup that has reached its limit, else the machine."""
    from vcjob.report.usage import bytes_text

    while folder.startswith(ROOT + "/"):
        limit = _number(os.path.join(folder, "memory.max")) or _number(
            os.path.join(folder, "memory.limit_in_bytes")
        )
        if 0 < limit < _NO_LIMIT and cgroup_counts(folder, "memory.events.local").full:
            return f"the cgroup {folder} has reached its limit of {bytes_text(limit)}"
        folder = os.path.dirname(folder)
    return "no memory was left on this machine"


def _count(path: str, wanted: str) -> int:
    for line in read_kernel_file(path).splitlines():
        key, _, count = line.partition(" ")
        if key == wanted:
            return int(count)
    return 0


def _number(path: str) -> int:
    text = read_kernel_file(path).strip()
    return int(text) if text.isdigit() else 0


def read_kernel_file(path: str) -> str:
    """The text of a file of the kernel; empty where there is none. Bytes that are not UTF-8 are escaped."""
    try:
        with open(path, errors="backslashreplace") as file:
            return file.read()
    except OSError:
        return ""
