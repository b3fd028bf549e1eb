"""The controllers compared with each other: one after the other on the same kind of cluster, in alternation.

    python -m bench.race.controllers.race [--quick] [--scenarios abcde] [--rounds 3] [--append] [--tune]

Needs root and what `python -m tests.testbed build` makes. Figures go to bench/race/results/controller.json.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from typing import Any

import msgspec

from bench.race.controllers.clusters import race_cluster
from bench.race.controllers.contestants import BARE, DEFAULT, TUNED, TUNING_STEPS, Contestant, ours, tuned
from bench.race.controllers.scenarios import SCENARIOS
from bench.race.controllers.size import FULL, QUICK, Size
from bench.race.report.goals import summary
from bench.race.report.results import Round, Row, earlier, one_round, write
from bench.race.report.table import text
from tests.testbed import support
from tests.testbed.programs.families import KUBERNETES_VERSION, VOLCANO_VERSION

#: Who takes part in what. Volcano as it comes is held to 50 requests a second: it would take many minutes for the others.
ENTRIES: dict[str, tuple[Contestant, ...]] = {
    "a": (ours(), tuned(*TUNED), BARE, DEFAULT),
    "b": (ours(), tuned(*TUNED), BARE, DEFAULT),
    "c": (ours(), tuned(*TUNED)),
    "d": (ours(), tuned(*TUNED)),
    "e": (ours(), tuned(*TUNED)),
}


def main(argv: Sequence[str] | None = None) -> list[Row]:
    """Run it, print the table, write the figures; the rows of the table come back."""
    parser = argparse.ArgumentParser(prog="python -m bench.race.controllers.race")
    parser.add_argument("--quick", action="store_true", help="(a) and (b), smaller, one round: minutes")
    parser.add_argument("--scenarios", default="", help="letters out of abcde")
    parser.add_argument("--only", default="", help="contestants by name, with commas between")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--append", action="store_true", help="add these rounds to those of the last run")
    parser.add_argument("--tune", action="store_true", help="find how far Volcano's flags are worth raising")
    parser.add_argument("--name", default="", help="of the file in bench/race/results")
    given = parser.parse_args(argv)
    problem = support.control_plane_problem()
    if problem:
        print(f"no controller race here: {problem}")
        return []
    size = QUICK if given.quick else FULL
    if given.tune:
        asyncio.run(_tune(size))
        return []
    scenarios = given.scenarios or ("ab" if given.quick else "abcde")
    rounds = given.rounds or (1 if given.quick else 3)
    name = given.name or ("controller-quick" if given.quick else "controller")
    found = earlier(name, "") if given.append else []
    asyncio.run(_race(scenarios, rounds, size, given.only, found, name))
    rows = summary(found, size)
    print(text(rows))
    return rows


async def _race(scenarios: str, rounds: int, size: Size, only: str, found: list[Round], name: str) -> None:
    before = max((done["round"] for done in found if done["scenario"] in scenarios), default=0)
    for number in range(before + 1, before + rounds + 1):
        for scenario in scenarios:
            entries = ENTRIES[scenario]
            # Who goes first changes from round to round.
            for who in entries if number % 2 else entries[::-1]:
                if (who.briefly and number > 1) or (only and who.name not in only.split(",")):
                    continue
                figures = await _run(scenario, who, size)
                found.append(one_round(scenario, who.name, number, figures))
                write(name, found, summary(found, size), versions())


async def _run(scenario: str, who: Contestant, size: Size) -> dict[str, Any]:
    async with race_cluster() as cluster:
        try:
            figures = await SCENARIOS[scenario](cluster, who, size)
        except TimeoutError as error:
            last_words = cluster.part.log_tail() if cluster.part else ""
            raise RuntimeError(f"({scenario}) {who.name}: {error}\n{last_words}") from error
    shown = {name: value for name, value in figures.items() if not isinstance(value, dict)}
    print(
        f"({scenario}) {who.name}: " + ", ".join(f"{name} {value:.4g}" for name, value in shown.items()),
        flush=True,
    )
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}


async def _tune(size: Size) -> None:
    for rate, workers in TUNING_STEPS:
        for scenario in "ab":
            who = tuned(rate, workers, f"volcano {rate}/s, {workers} workers")
            await _run(scenario, msgspec.structs.replace(who, briefly=True), size)


def versions() -> dict[str, str]:
    known = {"volcano": VOLCANO_VERSION, "kubernetes": KUBERNETES_VERSION}
    with suppress(metadata.PackageNotFoundError):
        known["uvloop"] = metadata.version("uvloop")
    return known


if __name__ == "__main__":
    sys.exit(0 if all(row["met"] for row in main()) else 1)
