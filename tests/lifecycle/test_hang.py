"""What an observed hang leads to: nothing, a restart or a failure, as the annotation says."""

from __future__ import annotations

from typing import Any

from tests.lifecycle.simulation import Simulation, torch_job
from vcjob.lifecycle.observed import Hang
from vcjob.lifecycle.status import Phase

MESSAGE = "rank 2 never reached all_reduce #418; all others have waited in it for 21 s"


def hung(action: str | None, **spec: Any) -> Simulation:
    annotations = {} if action is None else {"vcjob.io/on-hang": action}
    world = Simulation(torch_job(annotations=annotations, **spec)).running()
    world.observed.hang = Hang(MESSAGE, world.status.version)
    return world


def test_without_the_annotation_a_hung_job_runs_on() -> None:
    for action in (None, "warn"):
        assert hung(action).settle().phase is Phase.RUNNING


def test_fail_ends_the_job_and_the_message_has_the_finding() -> None:
    status = hung("fail").settle()
    assert (status.phase, status.state.reason) == (Phase.FAILED, "Hung")
    assert status.state.message == f"{MESSAGE}; on-hang: fail"


def test_restart_starts_every_rank_again_once_per_hang() -> None:
    """The restart changes the version of the status: the hang that was seen before it no longer counts."""
    world = hung("restart", maxRetry=3)
    status = world.settle()
    assert (status.phase, status.retry_count) == (Phase.PENDING, 1)
    world.all("Running")
    assert world.settle().phase is Phase.RUNNING
    assert world.status.retry_count == 1
    assert set(world.attempts().values()) == {1}
    assert MESSAGE in world.status.history[-1].message


def test_a_restart_needs_a_run_that_is_left() -> None:
    status = hung("restart", maxRetry=1).settle()
    assert (status.phase, status.state.reason) == (Phase.FAILED, "MaxRetryReached")
    assert MESSAGE in status.state.message


def test_a_job_that_does_not_run_is_not_restarted() -> None:
    world = hung("restart")
    world.command("AbortJob")
    assert world.settle().phase is Phase.ABORTED
