"""The window of requests in flight."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.kube.http.window import Window


async def hold(window: Window, gate: asyncio.Event, *, overloaded: bool = False) -> None:
    place = await window.acquire()
    try:
        await gate.wait()
    finally:
        window.release(place, answered=gate.is_set(), overloaded=overloaded and gate.is_set())


async def test_the_window_limits_the_requests_in_flight() -> None:
    window, gate = Window(3), asyncio.Event()
    tasks = [asyncio.create_task(hold(window, gate)) for _ in range(10)]
    await asyncio.sleep(0)
    assert (window.in_flight, window.waiting) == (3, 7)
    gate.set()
    await asyncio.gather(*tasks)
    assert (window.in_flight, window.waiting) == (0, 0)


async def test_a_full_window_grows_by_one_per_window_of_successes() -> None:
    window, gate = Window(4), asyncio.Event()
    gate.set()
    await asyncio.gather(*(hold(window, gate) for _ in range(4)))
    assert window.size == 4
    epochs = [await window.acquire() for _ in range(4)]
    for epoch in epochs:
        window.release(epoch)
    epochs = [await window.acquire() for _ in range(4)]
    for epoch in epochs:
        window.release(epoch)
    assert window.size == 5


async def test_an_idle_window_does_not_grow() -> None:
    window = Window(8)
    for _ in range(200):
        window.release(await window.acquire())
    assert window.size == 8


async def test_requests_without_a_response_do_not_grow_the_window() -> None:
    window = Window(2)
    for _ in range(50):
        epochs = [await window.acquire(), await window.acquire()]
        for epoch in epochs:
            window.release(epoch, answered=False)
    assert window.size == 2


async def test_one_burst_of_refusals_halves_once() -> None:
    window = Window(32)
    epochs = [await window.acquire() for _ in range(32)]
    for epoch in epochs:
        window.release(epoch, overloaded=True)
    assert window.size == 16


async def test_the_window_stays_between_its_floor_and_its_ceiling() -> None:
    window = Window(8, floor=2, ceiling=9)
    for _ in range(20):
        window.release(await window.acquire(), overloaded=True)
    assert window.size == 2
    for _ in range(200):
        epochs = [await window.acquire() for _ in range(window.size)]
        for epoch in epochs:
            window.release(epoch)
    assert window.size == 9


async def test_a_cancelled_waiter_loses_no_place() -> None:
    window, gate = Window(1, floor=1), asyncio.Event()
    first = asyncio.create_task(hold(window, gate))
    await asyncio.sleep(0)
    second, third = asyncio.create_task(hold(window, gate)), asyncio.create_task(hold(window, gate))
    await asyncio.sleep(0)
    second.cancel()
    gate.set()
    await asyncio.wait({first, second, third})
    assert second.cancelled()
    assert window.in_flight == 0


async def test_a_place_granted_to_a_cancelled_waiter_is_passed_on() -> None:
    window = Window(1, floor=1)
    epoch = await window.acquire()
    second = asyncio.create_task(window.acquire())
    third = asyncio.create_task(window.acquire())
    await asyncio.sleep(0)
    window.release(epoch)  # gives the place to `second`, which is cancelled before it runs
    second.cancel()
    await asyncio.wait_for(third, 60)
    assert window.in_flight == 1


async def test_a_waiter_that_is_cancelled_just_before_its_turn_ends_as_cancelled() -> None:
    window = Window(1, floor=1)
    epoch = await window.acquire()
    second = asyncio.create_task(window.acquire())
    third = asyncio.create_task(window.acquire())
    await asyncio.sleep(0)
    second.cancel()
    window.release(epoch)  # passes over `second`, which has not run since
    await asyncio.wait({second, third})
    assert second.cancelled()
    assert (window.in_flight, window.waiting) == (1, 0)


def test_invalid_bounds_are_rejected() -> None:
    with pytest.raises(ValueError, match="floor"):
        Window(4, floor=8)


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=40))
def test_places_are_never_lost_or_doubled(rounds: list[tuple[int, bool]]) -> None:
    async def play() -> None:
        window = Window(4, floor=1, ceiling=16)
        for wanted, overloaded in rounds:
            taken = [await window.acquire() for _ in range(min(wanted, window.size))]
            assert window.in_flight == len(taken) <= window.size
            for epoch in taken:
                window.release(epoch, overloaded=overloaded)
        assert window.in_flight == 0
        assert 1 <= window.size <= 16

    asyncio.run(play())
