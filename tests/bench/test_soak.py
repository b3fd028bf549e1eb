"""The verdict of a soak: what counts as growth."""

from __future__ import annotations

import asyncio
import os

import pytest

from bench.soak.curve import Curve, Sample, of_process, of_this_process


def curve(*samples: Sample) -> Curve:
    made = Curve("it", "Jobs")
    for number, sample in enumerate(samples):
        made.add(number, sample)
    return made


@pytest.mark.parametrize(
    ("first", "last", "grown"),
    [
        ({"resident MiB": 60.0}, {"resident MiB": 69.9}, False),
        ({"resident MiB": 60.0}, {"resident MiB": 70.1}, True),
        ({"descriptors": 20.0}, {"descriptors": 26.0}, False),
        ({"descriptors": 20.0}, {"descriptors": 27.0}, True),
        ({"timers": 0.0}, {"timers": 20.0}, True),
        ({"objects": 1.0}, {"objects": 10.0}, False),
    ],
)
def test_a_level_may_rise_by_a_tenth_and_a_little(first: Sample, last: Sample, grown: bool) -> None:
    assert bool(curve(first, {"resident MiB": 1e9} | last, last).excess()) == grown


def test_a_process_is_measured_from_outside_and_from_inside() -> None:
    assert of_process(os.getpid())["resident MiB"] > 5
    before = of_this_process()
    made: list[list[int]] = [
        [] for _ in range(2000)
    ]  # what was made before the tests is frozen, and not counted
    inside = of_this_process()
    assert inside["objects"] - before["objects"] > len(made) / 2 and inside["descriptors"] > 2


async def test_unfinished_tasks_and_timers_are_counted() -> None:
    before = of_this_process()
    waiting = [asyncio.create_task(asyncio.sleep(60)) for _ in range(5)]
    await asyncio.sleep(0)
    during = of_this_process()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (during["tasks"] - before["tasks"], during["timers"] - before["timers"]) == (5, 5)
