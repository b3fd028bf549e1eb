"""What a pod event costs, counted and not timed: the same in a Job of a hundred pods and of ten thousand."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest

from .jobs import job, task
from .stage import UID, Stage

#: `make scale` counts ten thousand too.
SIZES = (100, 1000, 10_000) if int(os.environ.get("VCJOB_SCALE_PODS", "0")) >= 10_000 else (100, 1000)
#: A few calls may differ; a cost that grows with the Job would be ten times as high at each size.
SLACK = 1.1


class Work(msgspec.Struct):
    """Sums over the events of one Job's life."""

    events: int = 0
    calls: int = 0
    requests: int = 0

    def per_event(self) -> tuple[float, float]:
        return self.calls / self.events, self.requests / self.events

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count every function that is called, Python's own ones included."""

        def count(_frame: object, event: str, _arg: object) -> None:
            self.calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(None)


async def test_the_work_of_a_pod_event_does_not_grow_with_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    calls, requests = zip(*[(await _life(size)).per_event() for size in SIZES], strict=True)
    with capsys.disabled():
        told = ", ".join(f"{size} pods: {number:.0f}" for size, number in zip(SIZES, calls, strict=True))
        print(f"\n  calls of functions per pod event: {told}", end="")
    assert max(calls) <= min(calls) * SLACK, calls
    assert max(requests) <= 0.5, requests


async def _life(size: int) -> Work:
    """Every pod is made, seen, runs and ends, in no order, and the Job is looked at after each event."""
    stage = Stage(
        job("j", task("a", size), plugins={"svc": []}), status_delay=60.0, creation_chunk=size, gang="none"
    )
    work = Work()
    await stage.look()
    shuffled = random.Random(size)
    for phase in ("Pending", "Running", "Succeeded"):
        names = stage.pods()
        shuffled.shuffle(names)
        for name in names:
            event = stage.next_sight(name, phase)
            before = stage.api.requests.total()
            with work.counted():
                stage.board.pod_changed(event)
                await stage.reconciler.reconcile(UID)
            work.events += 1
            work.requests += stage.api.requests.total() - before
    await stage.look()
    assert stage.stored["state"]["phase"] == "Completed"
    return work
