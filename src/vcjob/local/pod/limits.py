"""Memory and cpu limits of containers, by cgroups where this user may create them.

`Preparer` creates the cgroups of a container, its process enters them, and the supervisor removes them at the end of
the run. A limit that cannot be enforced is reported to the caller, not raised.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from vcjob.local.pod.memory_kills import ROOT, MemoryKills, read_kernel_file, shared_counter
from vcjob.spec import quantity

_PERIOD = 100_000  # microseconds, the kernel's default


class Limits:
    """Creates and removes the cgroups of one run.

    The shims enter containers into them; the supervisor, or recovery after a crash, removes them. Where this user may
    not create cgroups nothing fails: the limits are reported as not enforced.
    """

    def __init__(self, run_uid: str) -> None:
        self._prefix = f"vcjob-{run_uid}"
        self._parents = _parents()
        self._shared_counter = shared_counter()

    def enter(
        self, pod: str, container: str, resources: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], list[str]]:
        """The `cgroup.procs` files that the container's process must enter, and the limits that cannot be enforced."""
        limits = resources.get("limits") or {}
        wanted = {
            "memory": quantity.parse(limits["memory"]).value if limits.get("memory") else 0,
            "cpu": quantity.parse(limits["cpu"]).milli if limits.get("cpu") else 0,
        }
        entered: dict[str, None] = {}
        made: dict[str, str | None] = {}  # by parent: in cgroup version 2 both limits are in one folder
        missed = []
        for what, amount in wanted.items():
            if not amount:
                continue
            parent = self._parents.get(what, "")
            if parent not in made:
                made[parent] = self._folder(what, f"{pod}-{container}")
            folder = made[parent]
            if folder is not None and _limit(folder, what, amount):
                entered[os.path.join(folder, "cgroup.procs")] = None
            else:
                missed.append(what)
        return tuple(entered), missed

    def _folder(self, what: str, name: str) -> str | None:
        folder = self._path(what, name)
        if folder is None:
            return None
        try:
            if os.path.isdir(folder):
                os.rmdir(folder)  # of an earlier attempt: its counters must not be counted again
            os.mkdir(folder)
        except OSError:
            return folder if os.path.isdir(folder) else None
        return folder

    def _path(self, what: str, name: str) -> str | None:
        parent = self._parents.get(what)
        return None if parent is None else os.path.join(parent, f"{self._prefix}-{name}")

    def memory_kills(self, pod: str) -> MemoryKills:
        """The counters of what the kernel kills in the containers of one pod."""

        def own_cgroup(container: str) -> str:
            folder = self._path("memory", f"{pod}-{container}")
            return folder if folder is not None and os.path.isdir(folder) else ""

        return MemoryKills(own_cgroup, self._shared_counter)

    def remove(self) -> None:
        """Remove our (empty) cgroups."""
        for parent in set(self._parents.values()):
            try:
                names = os.listdir(parent)
            except OSError:
                continue
            for name in names:
                if name.startswith(self._prefix):
                    try:
                        os.rmdir(os.path.join(parent, name))
                    except OSError:
                        pass


def usable_limits() -> set[str]:
    """Which of memory and cpu this user can limit here."""
    return {what for what, folder in _parents().items() if os.access(folder, os.W_OK)}


def _parents() -> dict[str, str]:
    """Our own cgroup per resource: one folder in version 2, one per controller in version 1."""
    found: dict[str, str] = {}
    for line in read_kernel_file("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "" and os.path.exists(os.path.join(ROOT, "cgroup.controllers")):
            enabled = read_kernel_file(os.path.join(ROOT + path, "cgroup.subtree_control")).split()
            return {what: ROOT + path for what in ("memory", "cpu") if what in enabled}
        for controller in controllers.split(","):
            if controller in ("memory", "cpu"):
                folder = os.path.join(ROOT, controller) + path.rstrip("/")
                if os.access(folder, os.W_OK):
                    found[controller] = folder
    return found


def _limit(folder: str, what: str, amount: int) -> bool:
    quota = max(1000, amount * _PERIOD // 1000)
    settings = {
        "memory": (("memory.max", str(amount)), ("memory.limit_in_bytes", str(amount))),
        "cpu": (("cpu.max", f"{quota} {_PERIOD}"), ("cpu.cfs_quota_us", str(quota))),
    }
    for name, value in settings[what]:
        path = os.path.join(folder, name)
        if os.path.exists(path):
            try:
                with open(path, "w") as file:
                    file.write(value)
            except OSError:
                return False
            return True
    return False
