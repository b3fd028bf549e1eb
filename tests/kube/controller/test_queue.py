"""The work queue."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.kube.backoff import Backoff
from vcjob.kube.controller.queue import QueueClosed, WorkQueue


async def test_a_key_added_twice_is_processed_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_it_is_processed_is_processed_again_after_done() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done("a")
    assert await waiting == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_the_earliest_deadline_counts() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", 30)
    queue.add_after("a", 0.02)
    queue.add_after("a", 60)
    assert queue.delayed == 1
    assert await asyncio.wait_for(queue.get(), 60) == "a"
    assert queue.delayed == 0


async def test_delayed_keys_are_processed_in_the_order_of_their_deadlines() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for name, seconds in (("c", 0.03), ("a", 0.01), ("b", 0.02)):
        queue.add_after(name, seconds)
    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_a_deadline_in_the_past_is_due_now() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add_after("a", -5)
    assert len(queue) == 1


def test_deadlines_that_have_just_passed_are_due_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def rush() -> list[int]:
        queue: WorkQueue[int] = WorkQueue()
        for key in range(50):
            queue.add_after(key, 1e-6 * (50 - key))
        return [await queue.get() for _ in range(50)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert sorted(runner.run(rush())) == list(range(50))


async def test_a_failing_key_waits_longer_each_time_until_forgotten() -> None:
    queue: WorkQueue[str] = WorkQueue(Backoff(0.1, 100.0))
    delays = [queue.add_rate_limited("a") for _ in range(6)]
    assert all(later > earlier for earlier, later in pairwise(delays))
    queue.forget("a")
    assert queue.add_rate_limited("a") < 0.2
    queue.close()


def test_the_back_off_is_bounded_and_spread() -> None:
    backoff = Backoff(0.05, 60.0)
    late = {backoff.delay(1000) for _ in range(50)}
    assert 45.0 <= min(late) <= max(late) <= 75.0
    assert len(late) == 50


async def test_a_dropped_key_does_not_come_back() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("now")
    queue.add_after("later", 0.01)
    queue.drop("now")
    queue.drop("later")
    queue.add_after("other", 0.02)
    assert await queue.get() == "other"
    assert len(queue) == 0


class Key:
    """A key whose end can be observed."""


async def test_dropped_keys_are_not_kept_until_their_deadline() -> None:
    """Jobs with a deadline in a week come and go every second."""
    queue: WorkQueue[Key] = WorkQueue()
    kept: WeakSet[Key] = WeakSet()
    for _ in range(10_000):
        key = Key()
        kept.add(key)
        queue.add_after(key, 604_800)
        queue.drop(key)
    assert len(kept) < 200


async def test_outdated_deadlines_of_a_key_do_not_accumulate() -> None:
    queue: WorkQueue[Key] = WorkQueue()
    key = Key()
    for seconds in range(20_000, 10_000, -1):
        queue.add_after(key, seconds)
    assert sys.getrefcount(key) < 200
    queue.add_after(key, 0.001)
    assert await queue.get() is key


async def test_closing_releases_the_workers() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    results = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosed] * 3
    queue.add("a")
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_cancelled_worker_loses_no_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")  # wakes `first`, which is cancelled before it runs
    first.cancel()
    assert await asyncio.wait_for(second, 60) == "a"


async def test_the_time_in_the_queue_is_reported() -> None:
    waits: list[float] = []
    queue: WorkQueue[str] = WorkQueue(on_wait=waits.append)
    queue.add("a")
    await asyncio.sleep(0.02)
    await queue.get()
    assert waits[0] >= 0.015


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["add", "work", "done"])), max_size=60))
def test_no_key_is_lost_and_none_is_processed_twice_at_once(steps: list[tuple[str, str]]) -> None:
    async def play() -> None:
        queue: WorkQueue[str] = WorkQueue()
        working: list[str] = []
        owed: set[str] = set()
        for key, step in steps:
            if step == "add":
                queue.add(key)
                owed.add(key)
            elif step == "work" and len(queue):
                got = await queue.get()
                assert got not in working
                working.append(got)
                owed.discard(got)
            elif step == "done" and working:
                queue.done(working.pop(0))
        while working:
            queue.done(working.pop(0))
        left = {await queue.get() for _ in range(len(queue))}
        assert left == owed

    asyncio.run(play())
