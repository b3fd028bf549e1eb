"""How long counters wait to be written."""

from __future__ import annotations

import heapq

import pytest

from vcjob.cluster.controller.cache.job_state import UnsavedCounters
from vcjob.cluster.controller.status.throttle import BUSY_FACTOR, WAITING_FACTOR, StatusThrottle


def left(patience: StatusThrottle, waited: float, *, only_waits: bool = False, busy: bool = False) -> float:
    return patience.seconds_left(UnsavedCounters(1000.0, only_waits), 1000.0 + waited, busy=busy)


def test_counters_are_batched_for_the_delay() -> None:
    assert left(StatusThrottle(1.0), 0.0) == 1.0
    assert left(StatusThrottle(1.0), 0.75) == 0.25
    assert left(StatusThrottle(1.0), 1.0) == 0.0


def test_counters_wait_longer_while_busy_and_those_of_waiting_pods_longest() -> None:
    assert left(StatusThrottle(1.0), 1.0, busy=True) == BUSY_FACTOR - 1.0
    assert left(StatusThrottle(1.0), 1.0, busy=True, only_waits=True) == WAITING_FACTOR - 1.0
    assert left(StatusThrottle(1.0), float(WAITING_FACTOR), only_waits=True) == 0.0


def test_counters_of_many_jobs_at_once_wait_but_not_for_ever() -> None:
    patience = StatusThrottle(1.0)
    waits = [left(patience, 1.0) for _ in range(50)]
    assert waits[:10] == [0.0] * 10
    assert waits[10:] == pytest.approx([number / 10 for number in range(1, 40)] + [BUSY_FACTOR - 1.0])
    assert left(patience, 2.0) == 0.0  # a second later some more are due
    assert left(patience, BUSY_FACTOR - 0.25) == 0.0
    for _ in range(20):
        assert left(patience, float(BUSY_FACTOR)) == 0.0


def test_no_counter_waits_longer_than_the_busy_limit() -> None:
    patience = StatusThrottle(1.0)
    while left(patience, 4.5) == 0.0:
        pass
    assert [left(patience, 4.5) for _ in range(9)][4:] == pytest.approx([0.5] * 5)


def test_a_timer_that_fires_slightly_early_is_not_set_again() -> None:
    assert left(StatusThrottle(1.0), 0.995) == 0.0
    assert left(StatusThrottle(1.0), BUSY_FACTOR - 0.005, busy=True) == 0.0


@pytest.mark.parametrize(("jobs_per_second", "most"), [(8, 1), (20, 2.1), (50, 2.1)])
def test_each_check_of_a_counter_is_a_reconcile_so_there_are_few(jobs_per_second: int, most: float) -> None:
    """Jobs begin to wait at a steady rate, and each is checked when the throttle says so, a millisecond early."""
    patience, checks, waits = StatusThrottle(1.0), 0, []
    jobs = [1000.0 + number / jobs_per_second for number in range(jobs_per_second * 30)]
    due = [(since + 1.0, since) for since in jobs]
    heapq.heapify(due)
    while due:
        now, since = heapq.heappop(due)
        checks += 1
        assert checks <= most * len(jobs)
        seconds = patience.seconds_left(UnsavedCounters(since, False), now - 0.001, busy=False)
        if seconds > 0:
            heapq.heappush(due, (now + seconds, since))
        else:
            waits.append(now - since)
    assert max(waits) <= BUSY_FACTOR + 0.01


def test_without_a_delay_nothing_waits() -> None:
    patience = StatusThrottle(0.0)
    assert [left(patience, 0.0, busy=True, only_waits=True) for _ in range(50)] == [0.0] * 50
