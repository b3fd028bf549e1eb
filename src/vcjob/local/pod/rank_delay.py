"""Rank 0 goes first, by a moment.

Whoever joins a process group connects to rank 0, and torch asks a refused connection again only after a quarter to three
quarters of a second. Where all ranks start in the same instant, it is a matter of luck whether rank 0 listens first.
"""

from __future__ import annotations

from collections.abc import Mapping

#: A rank that has a core to itself, and one that has to share: those that come later take nothing from rank 0.
_BESIDE, _BEYOND = 0.1, 0.3
#: A forked rank has nothing to import before it listens.
WARM = 0.04


def behind(env: Mapping[str, str], cores: int) -> float:
    """By how many seconds a rank starts behind rank 0."""
    rank, ranks = env.get("RANK", ""), env.get("WORLD_SIZE", "")
    if not (rank.isdigit() and ranks.isdigit()) or not 0 < int(rank) < int(ranks):
        return 0.0
    return _BESIDE if int(rank) < cores else _BEYOND
