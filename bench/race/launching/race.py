"""Compared with torchrun, TorchX and accelerate: how soon all ranks have talked to each other, how soon a death
is noticed and how it is reported, how much memory it takes.

    python -m bench.race.launching.race [--quick] [--rounds 7] [--ranks 2 4 8] [--who NAME...] [--only times|deaths|memory] [--keep]

All contestants run the same script with gloo on this machine, in turn, in every round; what counts is the ratio
of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from importlib import metadata

from bench.race.launching.launchers import OURS, PEERS, TORCHRUN, Track, set_up_peers
from bench.race.report.results import Round, Row, earlier, limit_row, one_round, row, write

CONTESTANTS = ("torchrun", "torchx", "accelerate", "bare", *OURS)
TITLES = {"plain": "vcjob run", "warm": "vcjob run --warm", "kept": "vcjob run, server kept warm"}
#: Scenario, contestant: at most this part of torchrun's.
GOALS = {
    ("first collective, 2 ranks", "plain"): 0.85,
    ("first collective, 4 ranks", "plain"): 0.85,
    ("first collective, 8 ranks", "plain"): 0.85,
    ("first collective, 4 ranks", "warm"): 0.4,
    ("first collective, 8 ranks", "warm"): 0.25,
    ("first collective, 4 ranks", "kept"): 0.15,
    ("death to return, 4 ranks", "plain"): 0.5,
    ("death to return, 4 ranks", "warm"): 0.5,
    ("memory, 4 ranks", "warm"): 0.4,
}
SUPERVISOR_MIB = 25.0
DEATH_RANKS = 4


def main(argv: Sequence[str] | None = None) -> list[Row]:
    """Run it, write the figures; the rows of the table come back."""
    parser = argparse.ArgumentParser(prog="python -m bench.race.launching.race")
    parser.add_argument("--quick", action="store_true", help="4 ranks, one round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--who", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--only", choices=["times", "deaths", "memory"])
    parser.add_argument("--keep", action="store_true", help="keep earlier figures of other scenarios")
    given = parser.parse_args(argv)
    if not TORCHRUN.exists():
        print("no launcher race here: torch is not installed for this interpreter", file=sys.stderr)
        return []
    rounds = given.rounds or (1 if given.quick else 7)
    ranks = given.ranks or ([4] if given.quick else [2, 4, 8])
    if set(PEERS) & set(given.who):
        set_up_peers()
    with Track() as track, track.kept_server():
        found = []
        if given.only in (None, "times"):
            found += _times(track, rounds, ranks, given.who)
        if given.only in (None, "deaths"):
            found += _deaths(track, rounds, [who for who in given.who if who != "bare"])
        if given.only in (None, "memory"):
            found += _memory(track, given.who)
    if given.keep:
        found = earlier("launcher", sorted({each["scenario"] for each in found})) + found
    rows = goal_rows(found)
    whole = not given.quick and set(given.who) == set(CONTESTANTS)
    versions = {"torch": metadata.version("torch"), **PEERS}
    write("launcher" if whole else "launcher-quick", found, rows, versions)
    return rows


def _times(track: Track, rounds: int, ranks: Sequence[int], contestants: Sequence[str]) -> list[Round]:
    """Every contestant in every round, so that a busy minute disturbs all alike; the first round warms up."""
    found = []
    for number in range(rounds + 1):
        for count in ranks:
            for who in contestants:
                seconds = track.first_collective(who, count)
                scenario = f"first collective, {count} ranks"
                if number:
                    found.append(one_round(scenario, who, number, {"seconds": round(seconds, 4)}))
        print(f"times: round {number} of {rounds}" if number else "warmed up", file=sys.stderr, flush=True)
    return found


def _deaths(track: Track, rounds: int, contestants: Sequence[str]) -> list[Round]:
    found = []
    for number in range(1, rounds + 1):
        for who in contestants:
            seconds, words = track.death(who, DEATH_RANKS)
            figures = {"seconds": round(seconds, 4), "words": words}
            found.append(one_round(f"death to return, {DEATH_RANKS} ranks", who, number, figures))
        print(f"deaths: round {number} of {rounds}", file=sys.stderr, flush=True)
    return found


def _memory(track: Track, contestants: Sequence[str]) -> list[Round]:
    found = []
    for who in contestants:
        everything, agent = track.memory(who, 4)
        figures = {"mib": round(everything, 1), "agent_mib": round(agent, 1)}
        found.append(one_round("memory, 4 ranks", who, 1, figures))
    return found


def goal_rows(rounds: Sequence[Round]) -> list[Row]:
    """One row for each of ours, the goal in it where there is one; torchrun is the peer."""
    rows = []
    for scenario in dict.fromkeys(each["scenario"] for each in rounds):
        figure, unit = ("mib", "MiB") if scenario.startswith("memory") else ("seconds", "s")
        peer = median(rounds, scenario, "torchrun", figure)
        for who in OURS:
            ours = median(rounds, scenario, who, figure)
            if ours is None or peer is None:
                continue
            goal = GOALS.get((scenario, who))
            rows.append(row(f"{scenario}: {TITLES[who]}", "torchrun", unit, ours, peer, goal))
    for who in OURS:
        agent = median(rounds, "memory, 4 ranks", who, "agent_mib")
        if agent is not None:
            rows.append(limit_row(f"memory of the supervisor: {TITLES[who]}", "MiB", agent, SUPERVISOR_MIB))
    return rows


def median(rounds: Sequence[Round], scenario: str, who: str, figure: str) -> float | None:
    values = [r["figures"][figure] for r in rounds if r["scenario"] == scenario and r["who"] == who]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    from bench.race.report.table import text

    found = main()
    print(text(found))
    sys.exit(0 if all(each["met"] for each in found) else 1)
