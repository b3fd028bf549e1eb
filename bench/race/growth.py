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
import gc
import math
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench.race.local_store import fill
from bench.race.report.results import Round, Row, limit_row, one_round, write
from bench.render import job as wide_job
from tests.cluster.controller.harness import KEY, Harness
from tests.cluster.controller.jobs import job, task
from vcjob.plan.plan import Plan

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
        shown = ", ".join(f"{size} pods {1000 * costs[size]:.2f} ms" for size in costs)
        print(f"{name}: {shown}; exponent {slope:.3f}", flush=True)
        rows.append(limit_row(f"growth of {name}: exponent up to {sizes[-1]:,} pods", "", slope, MOST))
    write("growth-quick" if given.quick else "growth", rounds, rows, {})
    return rows


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the least-squares line through the logarithms."""
    logs = [(math.log(size), math.log(cost)) for size, cost in points]
    middle_x, middle_y = (sum(each[side] for each in logs) / len(logs) for side in (0, 1))
    return sum((x - middle_x) * (y - middle_y) for x, y in logs) / sum((x - middle_x) ** 2 for x, _ in logs)


#: Does the work once and gives the CPU seconds that it took.
Work = Callable[[], float]
#: Makes ready for so many pods; what the work needs is gone afterwards.
Prepare = Callable[[int], contextlib.AbstractContextManager[Work]]


def _cost(prepare: Prepare, size: int) -> float:
    with prepare(size) as work:
        work()
        # A process of its own would not have all that was loaded here.
        gc.collect()
        gc.freeze()
        tries = []
        for _ in range(3):
            spent, times = 0.0, 0
            while spent < LEAST_SECONDS:
                spent += work()
                times += 1
            tries.append(spent / times)
        gc.unfreeze()
        return min(tries)


def _timed(action: Callable[[], object]) -> float:
    begin = time.process_time()
    action()
    return time.process_time() - begin


@contextlib.contextmanager
def _render(size: int) -> Iterator[Work]:
    """From the Job to the last byte of the last pod's JSON."""
    given = wide_job(size)
    yield lambda: _timed(lambda: sum(map(len, Plan(given).pods_json())))


@contextlib.contextmanager
def _reconcile(size: int) -> Iterator[Work]:
    """A Job's life in the controller: every pod is seen, runs and ends in no order, and each event is handled.

    Only what the controller does is timed, not how the pretended API server makes the events.
    """

    async def life() -> float:
        document = job("j", task("a", size), plugins={"svc": []})
        harness = Harness(document, status_delay=60.0, creation_chunk=size, gang="none")
        await harness.reconcile()
        order, spent = random.Random(size), 0.0
        for phase in ("Pending", "Running", "Succeeded"):
            names = harness.pods()
            order.shuffle(names)
            for name in names:
                event = harness.next_sight(name, phase)
                begin = time.process_time()
                harness.jobs.pod_changed(event)
                await harness.reconciler.reconcile(KEY)
                spent += time.process_time() - begin
        await harness.reconcile()
        assert harness.stored["state"]["phase"] == "Completed"
        return spent

    yield lambda: asyncio.run(life())


@contextlib.contextmanager
def _verb(jobs: int, pods: int, words: list[str]) -> Iterator[Work]:
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
            yield lambda: _timed(work)
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
