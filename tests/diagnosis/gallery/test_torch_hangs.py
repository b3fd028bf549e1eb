"""Ranks that wait for each other without end (gloo, on CPUs): the rank that is behind is named; healthy jobs are not."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from typing import Any

import pytest

from tests.local.conftest import Start, container, job, python, ranks
from vcjob.local.live.rank_process import main_container
from vcjob.local.live.stacks import find_py_spy
from vcjob.sdk.local.handle import LocalHandle

from .hang_programs import (
    CROSSED,
    DATA_LOADER,
    FORKED_LOCK,
    GATHERS,
    GRID,
    INIT_ONLY,
    JOIN,
    LATE,
    LOOPS,
    OTHER_ORDER,
    PIPELINES,
    PREPARES,
    RECEIVES,
    SENDS,
    SIZES,
    SLEEPS,
    STRAGGLES,
    UNEVEN,
    WORK,
)
from .watching import (
    STARTED,
    a_line_of_every_rank,
    finding_of,
    hang_events,
    nothing_is_found,
    ranks_in_a_collective,
    until,
)

pytestmark = [pytest.mark.torch, pytest.mark.timeout(2 * STARTED)]

SECONDS = 6.0


def hung(
    start: Start, program: str, *, seconds: float = SECONDS, on_hang: str = "warn", workers: int = 2
) -> LocalHandle:
    """Start three ranks of a program, or more, with a short patience."""
    document: dict[str, Any] = job(*ranks(python(program), workers=workers), maxRetry=2)
    document["metadata"].setdefault("annotations", {})["vcjob.io/on-hang"] = on_hang
    return start(document, env={**os.environ, "VCJOB_HANG_AFTER": str(seconds)})


_CASES = {
    "sleeps": (SLEEPS, "RankBehind", "rank 1 never reached all_reduce #4; "),
    "endless-loop": (LOOPS, "RankBehind", "rank 1 never reached all_reduce #4"),
    "deadlocked-data-loader": (DATA_LOADER, "RankBehind", "rank 1 never reached all_reduce #4"),
    "forked-with-a-held-lock": (FORKED_LOCK, "RankBehind", "rank 1 never reached all_reduce #4"),
    "other-collective": (GATHERS, "CollectiveMismatch", "rank 1 called all_gather where the others called all_reduce (#4)"),
    "other-sizes": (SIZES, "CollectiveMismatch", "rank 1 called all_reduce with 5 Float where the others used 4 Float (#4)"),
    "receives-what-nobody-sends": (RECEIVES, "RankBehind", "rank 1 never sent what rank 0 has waited for in recv for "),
    "sends-what-nobody-receives": (SENDS, "RankBehind", "rank 1 never received what rank 0 has waited to send for "),
    "straggler": (STRAGGLES, "Straggler", "× slower per step than the median of the others"),
}  # fmt: skip
#: `make test` runs these; the rest are for `make test-cluster`.
_FEW = ("sleeps", "fail")


def few(name: str, *values: object) -> Any:
    return pytest.param(*values, id=name, marks=() if name in _FEW else pytest.mark.long)


@pytest.mark.parametrize(("program", "cause", "part"), [few(name, *case) for name, case in _CASES.items()])
def test_the_rank_is_named_while_the_job_runs(program: str, cause: str, part: str, start: Start) -> None:
    handle = hung(start, program)
    a_line_of_every_rank(handle)
    finding = finding_of(handle, cause, part, ("rank 1",))
    if cause != "Straggler":
        assert any(part in message for message in hang_events(handle, cause))
        assert any(part in note for note in handle.notes())
    if program in (DATA_LOADER, FORKED_LOCK):
        assert "DataLoader" in finding.hint and any("DataLoader" in each.text for each in finding.evidence)
    handle.stop(now=True)


@pytest.mark.long
def test_with_several_groups_the_rank_for_which_all_wait_in_the_end_is_named(start: Start) -> None:
    handle = hung(start, GRID.format("time.sleep(600)"), workers=3)
    a_line_of_every_rank(handle, 4)
    part = "rank 3 never reached all_reduce #2 of group "
    finding = finding_of(handle, "RankBehind", part, ("rank 3",))
    assert finding.confidence == "high" and finding.ranks.victims == ("rank 0", "rank 1", "rank 2")
    assert hang_events(handle, "CollectiveMismatch") == []
    handle.stop(now=True)


@pytest.mark.long
def test_ranks_that_use_two_groups_in_different_order_are_named(start: Start) -> None:
    handle = hung(start, OTHER_ORDER)
    a_line_of_every_rank(handle)
    part = "rank 0 waits in all_reduce #1 of group 1, while rank 1 waits in all_reduce #1 of group 2"
    finding = finding_of(handle, "CollectiveMismatch", part, ("rank 0", "rank 1"))
    assert finding.confidence == "high"
    handle.stop(now=True)


@pytest.mark.long
def test_without_the_agent_the_stacks_name_the_rank(start: Start) -> None:
    """-E: Python ignores PYTHONPATH, so that the agent is not loaded."""
    if find_py_spy() is None:
        pytest.skip("py-spy is not installed")
    program = container([sys.executable, "-E", "-c", SLEEPS])
    handle = start(job(*ranks(program)), env={**os.environ, "VCJOB_HANG_AFTER": str(SECONDS)})
    a_line_of_every_rank(handle)
    part = "rank 1 is not in all_reduce; all others have waited in it for"
    assert finding_of(handle, "RankBehind", part, ("rank 1",)).confidence == "medium"
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("work", list(WORK))
def test_a_rank_that_works_while_the_others_wait_is_no_hang(work: str, start: Start) -> None:
    handle = hung(start, PREPARES.format(WORK[work]), seconds=2.0)
    until(lambda: ranks_in_a_collective(handle), "a rank that waits in a collective", handle)
    nothing_is_found(handle, 3 * 2.0)
    handle.stop(now=True)


@pytest.mark.long
def test_ranks_that_receive_from_each_other_are_named(start: Start) -> None:
    handle = hung(start, CROSSED)
    a_line_of_every_rank(handle)
    part = "rank 0 in recv for rank 1, rank 1 in recv for rank 0"
    assert finding_of(handle, "CollectiveMismatch", part).ranks.first == ("rank 0", "rank 1")
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("pipeline", list(PIPELINES))
def test_a_pipeline_that_works_is_no_hang(pipeline: str, start: Start) -> None:
    handle = hung(
        start, PIPELINES[pipeline]
    )  # with less, a busy machine makes the pauses of one as long as a hang
    a_line_of_every_rank(handle)
    nothing_is_found(handle, 2 * SECONDS)
    handle.stop(now=True)


@pytest.mark.long
def test_uneven_batches_are_no_hang(start: Start) -> None:
    handle = hung(start, UNEVEN)
    until(lambda: ranks_in_a_collective(handle), "a rank that waits in a collective", handle)
    nothing_is_found(handle, 1.5 * SECONDS)
    handle.stop(now=True)


@pytest.mark.long
def test_a_rank_that_somebody_has_stopped_is_no_hang_and_neither_is_its_time_afterwards(start: Start) -> None:
    handle = hung(start, UNEVEN.replace("2.5", "0.1").replace("99", "9999"), seconds=2.0)
    a_line_of_every_rank(handle)
    pod = next(pod for pod in handle.pods() if pod.rank == 1)
    container = main_container(pod)
    assert container is not None and container.pid is not None
    os.kill(container.pid, signal.SIGSTOP)
    until(lambda: ranks_in_a_collective(handle), "a rank that waits in a collective", handle)
    nothing_is_found(handle, 3 * 2.0)
    os.kill(container.pid, signal.SIGCONT)
    handle.stop(now=True)


@pytest.mark.timeout(4 * STARTED)
@pytest.mark.parametrize("action", [few(action, action) for action in ("fail", "restart")])
def test_on_hang_acts_instead_of_waiting_for_torchs_timeout(action: str, start: Start) -> None:
    handle = hung(start, SLEEPS, on_hang=action)
    message = "rank 1 never reached all_reduce #4"
    runs = 1 if action == "fail" else 2
    for run in range(runs):
        until(lambda: len(hang_events(handle, "RankBehind")) > run, f"the hang of run {run}", handle)
    assert handle.wait(STARTED) == "Failed"
    assert all(message in each for each in hang_events(handle, "RankBehind"))
    status = handle.status()
    assert message in status.state.message
    assert status.state.reason == ("Hung" if action == "fail" else "MaxRetryReached")
    assert status.restarts == runs - 1
    first = handle.why()[0]
    assert (first.cause, first.ranks.first) == ("RankBehind", ("rank 1",))


_MEETINGS = {
    "master-sleeps": (
        JOIN + "if rank == 0: time.sleep(600)\n" + INIT_ONLY,
        "MasterNotListening",
        " of the master: rank 0 has done nothing for ",
    ),
    "master-uses-another-port": (
        JOIN + "if rank == 0: os.environ['MASTER_PORT'] = '0'\n" + INIT_ONLY,
        "MasterNotListening",
        "it uses another port; rank ",
    ),
    "expects-more-ranks": (
        JOIN + "os.environ['WORLD_SIZE'] = '4'\n" + INIT_ONLY,
        "WorldSizeMismatch",
        "all 3 ranks have joined, and rank 0 has waited for more in init_process_group for ",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", list(_MEETINGS))
def test_ranks_that_do_not_meet_have_a_finding(name: str, start: Start) -> None:
    program, cause, part = _MEETINGS[name]
    handle = hung(start, program)
    a_line_of_every_rank(handle)
    finding_of(handle, cause, part, ("rank 0",))
    assert any(part in note for note in handle.notes())
    handle.stop(now=True)


@pytest.mark.long
def test_workers_that_wait_in_an_init_container_for_an_idle_master_have_a_finding(start: Start) -> None:
    plugins = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=600"]}
    document = job(*ranks("sleep 600"), plugins=plugins, minAvailable=1)
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": str(SECONDS)})
    finding_of(handle, "MasterNotListening", "rank 1 and rank 2 wait to connect to it")
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("work", list(LATE))
def test_a_rank_that_works_before_it_joins_is_no_hang(work: str, start: Start) -> None:
    handle = hung(start, JOIN + LATE[work] + INIT_ONLY, seconds=2.0)
    a_line_of_every_rank(handle)
    nothing_is_found(handle, 4 * 2.0)
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "cause"),
    [
        pytest.param(SLEEPS, "RankBehind", id="sleeps"),
        pytest.param(RECEIVES, "RankBehind", id="receives"),
        *(pytest.param(program, cause, id=name) for name, (program, cause, _) in _MEETINGS.items()),
    ],
)
def test_a_hang_is_reported_soon_with_default_settings(program: str, cause: str, start: Start) -> None:
    """Within thirty seconds, and later on a busy machine."""
    handle = start(job(*ranks(python(program))))
    a_line_of_every_rank(handle)
    finding_of(handle, cause)
    event = next(each for each in handle.events() if each["reason"] == cause)
    assert event["type"] == "Warning"
    began = max(line.time or 0.0 for line in handle.logs() if line.text in ("begun", "up"))
    assert datetime.fromisoformat(event["firstTimestamp"]).timestamp() - began <= 90
    handle.stop(now=True)
