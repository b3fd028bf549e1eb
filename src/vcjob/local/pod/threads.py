"""How many threads each rank computes with: the ranks of a job share the cores of this machine.

By default the libraries of every rank start as many threads as the machine has cores, so that N ranks compete with N
times too many threads. A launcher inside the pod (torchrun) sets the number for the ranks that it starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vcjob.spec import quantity
from vcjob.spec.scalars import natural

VARIABLE = "OMP_NUM_THREADS"
_CHOSEN_BY_USER = (VARIABLE, "MKL_NUM_THREADS")
_LAUNCHER = re.compile(
    r"(?:^|[/\s])(?:torchrun|accelerate|deepspeed|mpirun)(?:\s|$)|torch\.distributed\.(?:run|launch)"
)


def cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of(
    container: Mapping[str, Any], argv: Sequence[str], env: Mapping[str, str], machine: int
) -> int | None:
    """The number of threads of one rank; None for a single rank, or if the user or a launcher sets it."""
    ranks = natural(env.get("WORLD_SIZE", "")) or 0
    if "RANK" not in env or ranks < 2:
        return None
    if any(name in env for name in (*_CHOSEN_BY_USER, "PET_NPROC_PER_NODE")):
        return None
    if any(_LAUNCHER.search(word) for word in argv):
        return None
    limit = ((container.get("resources") or {}).get("limits") or {}).get("cpu")
    allowed = machine if limit is None else max(1, quantity.parse(limit).milli // 1000)
    return min(allowed, max(1, machine // ranks))
