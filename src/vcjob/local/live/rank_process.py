"""Which processes are the ranks of a running pod, found below the process of its main container.

A container may run a shell, torchrun or Python itself. Workers that torchrun started are ranks of their own and say so
in their environment; otherwise the topmost Python process is the rank. Used by `stacks` and `usage`.
Linux only.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from vcjob.local.machine import process
from vcjob.report.podstate import ContainerState, PodState
from vcjob.spec.scalars import natural

#: At most so many processes of one pod are examined.
_MOST = 512


class RankProcess(NamedTuple):
    """The Python process of one rank."""

    rank: int | None
    pid: int


def main_container(pod: PodState) -> ContainerState | None:
    """The running container that is the rank."""
    running = [each for each in pod.containers if each.pid is not None and each.ended is None]
    return next((each for each in running if each.role == "main"), running[0] if running else None)


def process_tree(pid: int) -> list[int]:
    """The process and its descendants, parents before their children, bounded."""
    found = [pid]
    for each in found:
        if len(found) >= _MOST:
            break
        found += process.children(each)
    return found[:_MOST]


def python_processes(pod: PodState) -> list[RankProcess]:
    """The Python process of each rank in this pod; empty where none of its processes is Python."""
    container = main_container(pod)
    if container is None or container.pid is None or not process.is_same(container.pid, container.pid_start):
        return []
    python = [pid for pid in process_tree(container.pid) if _is_python(pid)]
    workers: dict[int, int] = {}
    for pid in python:
        if process.mark_of(pid, "TORCHELASTIC_RUN_ID") is not None:
            rank = natural(process.mark_of(pid, "RANK") or "")
            if rank is not None:
                workers.setdefault(rank, pid)
    if workers:
        return [RankProcess(rank, pid) for rank, pid in sorted(workers.items())]
    return [RankProcess(pod.rank, python[0])] if python else []


def _is_python(pid: int) -> bool:
    try:
        if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith("python"):
            return True
        with open(f"/proc/{pid}/maps", errors="replace") as file:
            return any("libpython" in line for line in file)
    except OSError:
        return False
