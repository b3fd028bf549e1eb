"""A rank that is slower than the others at every step, from the times at which ranks reach their collectives.

A collective ends when the last rank has reached it. What a rank needs from there to the next collective is its own work;
the rest of the step it waits. Only a remark: a straggler is no failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from statistics import median

from vcjob.diagnosis.finding import Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation
from vcjob.wellknown import causes

#: A straggler needs so many times the others' median, and is the last to arrive this often.
RATIO, LAST_SHARE = 1.5, 0.8
#: Over so many steps, and so much time as a part of `hang_after`: less is chance.
_FEWEST, _SHORTEST = 10, 0.25


def straggler(observation: Observation) -> Iterator[Finding]:
    """One rank does the same work much more slowly than the others."""
    arrivals = {
        state.rank: {call.sequence: call.issued_at for call in state.collectives if call.group == "0"}
        for state in observation.rank_states
    }
    if observation.phase != "Running" or len(arrivals) < 2:
        return
    common = sorted(set.intersection(*(set(times) for times in arrivals.values())))
    steps = [(before, after) for before, after in pairwise(common) if after == before + 1]
    if len(steps) < _FEWEST:
        return
    work = dict.fromkeys(arrivals, 0.0)
    last = dict.fromkeys(arrivals, 0)
    for before, after in steps:
        began = max(times[before] for times in arrivals.values())
        for rank, times in arrivals.items():
            work[rank] += max(0.0, times[after] - began)
        last[max(arrivals, key=lambda rank: arrivals[rank][after])] += 1
    slowest = max(work, key=lambda rank: work[rank])
    usual = median(work[rank] for rank in work if rank != slowest)
    seldom_last = last[slowest] < LAST_SHARE * len(steps)
    if work[slowest] < RATIO * usual or seldom_last or work[slowest] < observation.hang_after * _SHORTEST:
        return
    ratio = f"{work[slowest] / usual:.1f}×" if usual > 0 else "much"
    yield Finding(
        causes.STRAGGLER,
        f"rank {slowest} is {ratio} slower per step than the median of the others",
        Ranks((f"rank {slowest}",)),
        (
            Evidence(
                "flight recorder",
                f"last {len(steps)} steps: rank {slowest} worked {1000 * work[slowest] / len(steps):.0f} ms "
                f"per step, the others {1000 * usual / len(steps):.0f} ms",
            ),
        ),
        "compare its load with `vcjob top`: slow disk, a busy core or GPU, or more data than the others",
        "low",
    )
