"""How the cost grows with the number of pods: rendering, reconciling, reading logs, listing.

    python -m bench.race.growth [--quick]

CPU seconds of this process at 10, 100, 1,000 and 10,000 pods, the best of some tries; from each the cost of the
same work for one pod is taken off (what it costs to begin at all). The exponent is the slope of the straight line that fits the
logarithms best: 1 is proportional, 2 would be quadratic.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.render import job as wide_job
from tests.controller.jobs import job, task
from tests.controller.stage import UID, Stage
from vcjob.plan.plan import Plan

from .local_store import fill
from .results import Round, Row, limit_row, one_round, write

SIZES = (10, 100, 1_000, 10_000)
MOST = 1.05
#: Small work is repeated until it takes so long that the clock can tell it.
LEAST_SECONDS = 0.05


def main(argv: Sequence[str] | None = None) -> list[Row]:
    """Run it, write the figures; the rows of the table come back."""
    parser = argparse.ArgumentParser(prog="python -m bench.race.growth")
    parser.add_argument("--quick", action="store_true", help="up to 1,000 pods")
    given = parser.parse_args(argv)
    sizes = SIZES[:-1] if given.quick else SIZES
    rounds: list[Round] = []
    rows = []
    for name, prepare in WORK.items():
        costs = {size: _cost(prepare, size) for size in (1, *sizes)}
        rounds += [one_round(name, "vcjob", 1, {"pods": size, "cpu_seconds": costs[size]}) for size in costs]
        slope = exponent([(size, costs[size] - costs[1]) for size in sizes])
        told = ", ".join(f"{size} pods {1000 * costs[size]:.2f} ms" for size in costs)
        print(f"{name}: {told}; exponent {slope:.3f}", flush=True)
        rows.append(limit_row(f"growth of {name}: exponent up to {sizes[-1]:,} pods", "", slope, MOST))
    write("growth", rounds, rows, {})
    return rows


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line through the logarithms."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    middle_x, middle_y = (sum(each[side] for each in logs) / len(logs) for side in (0, 1))
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs)


#: Makes ready for so many pods, and gives the work to be timed; what the work needs is gone afterwards.
Prepare = Callable[[int], contextlib.AbstractContextManager[Callable[[], object]]]


def _cost(prepare: Prepare, size: int) -> float:
    with prepare(size) as work:
        work()
        tries = []
        for _ in range(3):
            begin, times = time.process_time(), 0
            while (passed := time.process_time() - begin) < LEAST_SECONDS:
                work()
                times += 1
            tries.append(passed / times)
        return min(tries)


@contextlib.contextmanager
def _render(size: int) -> Iterator[Callable[[], object]]:
    """From the Job to the last byte of the last pod's JSON."""
    given = wide_job(size)
    yield lambda: sum(map(len, Plan(given).pods_json()))


@contextlib.contextmanager
def _reconcile(size: int) -> Iterator[Callable[[], object]]:
    """A Job's whole life in the controller: every pod is made, seen, runs and ends, and each event is looked at."""

    async def life() -> None:
        document = job("j", task("a", size), plugins={"svc": []})
        stage = Stage(document, status_delay=60.0, creation_chunk=size, gang="none")
        await stage.look()
        order = random.Random(size)
        for phase in ("Pending", "Running", "Succeeded"):
            names = stage.pods()
            order.shuffle(names)
            for name in names:
                stage.board.pod_changed(stage.next_sight(name, phase))
                await stage.reconciler.reconcile(UID)
        await stage.look()
        assert stage.stored["state"]["phase"] == "Completed"

    yield lambda: asyncio.run(life())


@contextlib.contextmanager
def _verb(jobs: int, pods: int, words: list[str]) -> Iterator[Callable[[], object]]:
    """A verb of the command line where so many jobs of so many pods are, in this process, its output thrown away."""
    from vcjob.cli.main import main as vcjob

    before = os.environ.get("VCJOB_HOME")
    with tempfile.TemporaryDirectory() as home, open(os.devnull, "w") as nowhere:
        os.environ["VCJOB_HOME"] = home
        fill(Path(home), jobs, pods)

        def work() -> None:
            with contextlib.redirect_stdout(nowhere), contextlib.suppress(SystemExit):
                vcjob(words)

        try:
            yield work
        finally:
            os.environ.pop("VCJOB_HOME")
            if before is not None:
                os.environ["VCJOB_HOME"] = before


WORK: dict[str, Prepare] = {
    "render": _render,
    "reconcile": _reconcile,
    "logs": lambda size: _verb(1, size, ["logs", "job-0"]),
    # Jobs of ten pods; one pod is no job, so that there the empty list is timed.
    "list": lambda size: _verb(size // 10, 10, ["list"]),
}


if __name__ == "__main__":
    sys.exit(0 if all(each["met"] for each in main()) else 1)
