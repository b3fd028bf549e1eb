"""A rank that has failed for good, and a worker whose wait for the master timed out."""

from __future__ import annotations

import pytest

from tests.lifecycle.simulation import Simulation, job, task, torch_job
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import FailPods, KillPods
from vcjob.plugins.wait import WAIT_EXIT_CODES, WAIT_TIMEOUT_EXIT_CODE

IGNORE = {"vcjob.io/on-rank-failure": "ignore"}


def test_improvement_26_a_failed_rank_fails_the_job_at_once_and_the_reason_names_it() -> None:
    world = Simulation(torch_job(workers=3)).running()
    world.set_pod("master", 0, "Succeeded")
    world.settle()
    world.set_pod("worker", 1, "Failed", 1)
    decision = world.tick()
    assert (decision.status.phase, decision.status.state.reason) == (Phase.FAILED, "RankFailed")
    assert decision.status.state.message == "rank 2 (worker-1) failed: container main exited with code 1"
    assert [s for s in decision.steps if isinstance(s, KillPods)] == [
        KillPods("worker", IndexSet.of([0, 2]), 0, "Failed")
    ]
    assert (world.culprit.rank, world.failure.exit_code) == (2, 1)
    world.settle()
    assert set(world.attempts()) == {"master-0", "worker-1"}


def test_improvement_26_also_while_the_job_is_still_pending() -> None:
    world = Simulation(torch_job())
    world.settle()
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.FAILED


@pytest.mark.parametrize(("name", "rank"), [("chief", "rank 0 (chief-0)"), ("hand", "rank 2 (hand-1)")])
def test_improvement_26_ranks_are_those_of_the_tasks_that_the_plugin_names(name: str, rank: str) -> None:
    tasks = task("chief", 1), task("hand", 2), task("extra", 1)
    plugins = {"pytorch": ["--master=chief", "--worker", "hand"]}
    world = Simulation(job(*tasks, plugins=plugins)).running()
    world.set_pod("extra", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING
    world.set_pod(name, 1 if name == "hand" else 0, "Failed", 1)
    assert world.settle().phase is Phase.FAILED
    assert rank in world.status.state.message


def test_improvement_26_in_a_homogeneous_job_the_index_is_the_rank() -> None:
    world = Simulation(
        job(task("node", 3), plugins={"pytorch": ["--master=node", "--worker=node"]})
    ).running()
    world.set_pod("node", 2, "Failed", 1)
    world.settle()
    assert world.culprit.rank == 2


def test_improvement_26_does_not_apply_to_a_job_without_the_plugin() -> None:
    world = Simulation(job()).running()
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.RUNNING
    assert world.status.failed == 1


def test_improvement_26_the_annotation_restores_volcanos_behavior() -> None:
    world = Simulation(torch_job(annotations=IGNORE)).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.set_pod("worker", 1, "Running", restarts=10)
    assert world.settle().phase is Phase.RUNNING


@pytest.mark.parametrize("timeout", [None, "1h"])
def test_improvement_26_does_not_apply_where_a_policy_matches(timeout: str | None) -> None:
    policy = {"event": "PodFailed", "action": "RestartJob", **({"timeout": timeout} if timeout else {})}
    world = Simulation(torch_job(policies=[policy])).running()
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is (Phase.RUNNING if timeout else Phase.PENDING)


def test_improvement_26_a_policy_for_another_exit_code_does_not_match() -> None:
    world = Simulation(torch_job(policies=[{"exitCode": 2, "action": "RestartJob"}])).running()
    world.set_pod("worker", 0, "Failed", 1)
    assert world.settle().phase is Phase.FAILED


@pytest.mark.parametrize(("max_retry", "limit"), [(None, 3), (2, 2), (0, 1)])
def test_improvement_26_a_restarting_rank_has_failed_for_good_at_its_tasks_max_retry(
    max_retry: int | None, limit: int
) -> None:
    fields = {} if max_retry is None else {"maxRetry": max_retry}
    tasks = task("master", 1, maxRetry=99), task("worker", 2, **fields)
    world = Simulation(torch_job(tasks=tasks)).running()
    failure = Failure("main", 139, signal=11)
    if limit > 1:
        world.set_pod("worker", 0, "Running", restarts=limit - 1, failure=failure)
        world.set_pod("worker", 1, "Running", restarts=limit - 1, failure=failure)
        assert world.settle().phase is Phase.RUNNING, (
            "together they have more, but no rank has failed for good"
        )
    world.set_pod("worker", 1, "Running", restarts=limit, failure=failure)
    assert world.settle().phase is Phase.FAILED
    assert world.status.state.message == (
        "rank 2 (worker-1) keeps restarting: container main was killed by signal 11 (SIGSEGV)"
    )


def test_improvement_26_a_rank_that_succeeded_in_the_end_has_not_failed() -> None:
    world = Simulation(torch_job(workers=1)).running()
    world.set_pod("worker", 0, "Succeeded", restarts=3, failure=Failure("main", 1))
    assert world.settle().phase is Phase.RUNNING


def test_improvement_26_does_not_apply_where_a_policy_for_task_failed_matches() -> None:
    tasks = task("master", 1), task("worker", 1, policies=[{"event": "TaskFailed", "action": "RestartTask"}])
    world = Simulation(torch_job(tasks=tasks)).running()
    world.set_pod("worker", 0, "Running", restarts=3)
    world.settle()
    assert (world.phase, world.attempts()) == ("Pending", {"master-0": 0, "worker-0": 1})


@pytest.mark.parametrize("code", sorted(WAIT_EXIT_CODES))
def test_improvement_10_a_worker_whose_wait_timed_out_fails_although_its_pod_would_restart_it(
    code: int,
) -> None:
    world = Simulation(torch_job())
    world.settle()
    said = (
        "wait-for-master: error: m:1 did not answer within 3 s: refused (by nc); check that its program runs"
    )
    failure = Failure("wait-for-master", code, init=True, message=said)
    world.set_pod("worker", 1, "Pending", restarts=1, failure=failure)
    decision = world.decide()
    fails = [step for step in decision.steps if isinstance(step, FailPods)]
    assert [(s.task, s.indexes, s.attempt) for s in fails] == [("worker", IndexSet.of([1]), 0)]
    world.settle()
    assert world.phase == "Failed"
    assert world.status.state.message.startswith("rank 2 (worker-1) failed: init container wait-for-master")
    if code == WAIT_TIMEOUT_EXIT_CODE:
        assert world.status.state.message.endswith(
            " timed out waiting for the master; m:1 did not answer within 3 s: refused (by nc)"
        )


@pytest.mark.parametrize(
    "failure",
    [
        Failure("wait-for-master", 1, init=True),
        Failure("wait-for-master", WAIT_TIMEOUT_EXIT_CODE, init=False),
        Failure("main", WAIT_TIMEOUT_EXIT_CODE, init=True),
        None,
    ],
)
def test_improvement_10_any_other_restart_is_left_to_the_pod(failure: Failure) -> None:
    world = Simulation(torch_job())
    world.settle()
    world.set_pod("worker", 1, "Pending", restarts=1, failure=failure)
    assert not [step for step in world.decide().steps if isinstance(step, FailPods)]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (
            Failure("main", 137, reason="OOMKilled"),
            "exited with code 137 for using more memory than its limit",
        ),
        (Failure("main", None), "container main failed"),
        (Failure("main", 1, reason="Error", message="boom\n"), "exited with code 1; boom"),
        (Failure(reason="DeadlineExceeded"), "worker-0) failed: DeadlineExceeded"),
        (Failure("main", 200, signal=99), "was killed by signal 99"),
        (None, "rank 1 (worker-0) failed"),
    ],
)
def test_the_message_says_how_it_failed(failure: Failure, words: str) -> None:
    world = Simulation(torch_job()).running()
    world.set_pod("worker", 0, "Failed", failure=failure)
    assert world.settle().state.message.endswith(words)
