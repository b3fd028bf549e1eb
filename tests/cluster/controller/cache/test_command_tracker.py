"""The Commands of a Job: in the order of their creation, at a cost that does not grow with their number."""

from __future__ import annotations

import pytest

from tests.cluster.controller.cache.test_job_cache import command, lean, state_of
from tests.counting import calls
from vcjob.cluster.controller.cache.command_tracker import CommandTracker
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.lifecycle.observed import Observed

TARGET = {"kind": "Job", "name": "j"}


@pytest.mark.parametrize("known", [True, False])
def test_the_cost_of_a_command_does_not_grow_with_their_number(known: bool) -> None:
    def cost(count: int) -> int:
        jobs = JobCache(lambda key, seconds: None)
        if known:
            jobs.job_changed(lean())
        commands = [command({"kind": "Job", "name": "j"}, f"c{n}", count - n) for n in range(count)]

        def see_all() -> None:
            for each in commands:
                jobs.command_added(each)
            jobs.job_changed(lean(2))
            state_of(jobs).commands.refresh()

        made = calls(see_all)
        assert len(state_of(jobs).observed.commands) == count
        return made

    assert cost(1000) <= cost(100) * 11


def test_the_cost_of_executing_commands_does_not_grow_with_those_that_wait() -> None:
    """Each decision executes a few, and they are deleted; the others are not sorted again each time."""

    def cost(count: int) -> int:
        tracker = CommandTracker(Observed())
        for number in range(count):
            tracker.add(command(TARGET, f"c{number}", number + 1))
        tracker.refresh()

        def execute_some() -> None:
            for number in range(100):
                tracker.remove(f"c{number}")
            tracker.add(command(TARGET, "new", count + 1))
            tracker.refresh()

        made = calls(execute_some)
        assert len(tracker) == len(tracker._observed.commands) == count - 99
        return made

    assert cost(10_000) <= cost(1000) + 10


def test_commands_that_come_late_or_go_early_keep_the_order_of_creation() -> None:
    tracker = CommandTracker(Observed())

    def executed() -> list[str]:
        tracker.refresh()
        return list(tracker._observed.commands)

    for version in (5, 3, 8):
        tracker.add(command(TARGET, f"c{version}", version))
    assert executed() == ["c3", "c5", "c8"]
    tracker.remove("c5")
    tracker.add(command(TARGET, "c9", 9))
    assert executed() == ["c3", "c8", "c9"]
    tracker.add(command(TARGET, "c4", 4))
    tracker.add(command(TARGET, "c10", 10))
    tracker.remove("c10")
    assert executed() == ["c3", "c4", "c8", "c9"]


def test_commands_that_come_and_go_before_anybody_reads_them_leave_nothing_behind() -> None:
    tracker = CommandTracker(Observed())
    for number in range(100):
        tracker.add(command(TARGET, f"c{number}", number + 1))
        tracker.remove(f"c{number}")
    assert not len(tracker) and not tracker._changed
