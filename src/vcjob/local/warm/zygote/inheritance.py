"""What a process inherits from its parent beyond environment and working directory: user, limits, namespaces, CPU set.

A forked rank inherits these from the zygote, not from the run. So they must be equal, or they are set again in the
rank (`set_limits`), or the zygote is not used. The client and the rank parent both call this module.
"""

from __future__ import annotations

import os
import resource
from typing import Any

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_STATUS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")

#: Read once, when the program starts (size of thread stacks, layout of memory): too late after a fork.
_AT_START = ("RLIMIT_STACK",)


def inherited() -> dict[str, Any]:
    """What must be equal, as names and values that can be compared and sent."""
    found: dict[str, Any] = {
        "user": [os.getuid(), os.geteuid(), os.getgid(), os.getegid()],
        "groups": sorted(os.getgroups()),
        "nice value": os.nice(0),
        "root folder": os.readlink("/proc/self/root"),
        "OOM score": _read("/proc/self/oom_score_adj"),
        "control group": _read("/proc/self/cgroup"),
        "CPU set": sorted(os.sched_getaffinity(0)),
        "limit on stacks": [list(resource.getrlimit(getattr(resource, name))) for name in _AT_START],
    }
    for name in _NAMESPACES:
        try:
            found[f"{name} namespace"] = os.readlink(f"/proc/self/ns/{name}")
        except OSError:
            pass
    privileges = [line.split() for line in _read("/proc/self/status").splitlines()]
    found["privileges"] = [words for words in privileges if words and words[0].rstrip(":") in _STATUS]
    return found


def difference(ours: dict[str, Any], theirs: dict[str, Any], free: tuple[str, ...] = ()) -> str | None:
    """The first name in which two processes differ, leaving out those in `free`."""
    for name in sorted({*ours, *theirs} - set(free)):
        if ours.get(name) != theirs.get(name):
            return name
    return None


def limits() -> dict[str, list[int]]:
    return {
        name: list(resource.getrlimit(getattr(resource, name)))
        for name in dir(resource)
        if name.startswith("RLIMIT_") and name not in ("RLIMIT_OFILE", *_AT_START)
    }


def set_limits(wanted: dict[str, list[int]]) -> None:
    for name, (soft, hard) in wanted.items():
        number = getattr(resource, name)
        if resource.getrlimit(number) != (soft, hard):
            resource.setrlimit(number, (soft, hard))


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
