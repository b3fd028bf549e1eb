"""Rank 0 starts slightly before the other ranks.

Every rank that joins a process group connects to rank 0, and torch repeats a refused connection only after 0.25 to
0.75 s. If all ranks started at the same time, it would be chance whether rank 0 listens in time.
"""

from __future__ import annotations

from collections.abc import Mapping

from vcjob.spec.scalars import natural

#: Seconds for a rank that has a core to itself, and for one that shares a core: it must not slow rank 0 down.
_OWN_CORE, _SHARED_CORE = 0.1, 0.3
#: A forked rank has nothing to import before it listens.
WARM_DELAY = 0.04


def start_delay(env: Mapping[str, str], cores: int) -> float:
    """How many seconds after rank 0 a rank starts."""
    rank, ranks = (natural(env.get(name, "")) or 0 for name in ("RANK", "WORLD_SIZE"))
    if not 0 < rank < ranks:
        return 0.0
    return _OWN_CORE if rank < cores else _SHARED_CORE
