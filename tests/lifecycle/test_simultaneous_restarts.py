"""Restarts of parts that are due together are one restart: a crash of many pods costs one retry."""

from __future__ import annotations

from typing import Any

import pytest

from tests.counting import calls
from tests.lifecycle.simulation import START, Simulation, job, policy, task
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import Phase, Status

PARTITIONS = {"totalPartitions": 4, "partitionSize": 2}


def workers(replicas: int, *policies: dict[str, Any], **fields: Any) -> Simulation:
    return Simulation(job(task("worker", replicas, **fields), policies=list(policies)))


def restarted(world: Simulation) -> set[str]:
    """The pods on their second attempt; no other pod was restarted."""
    attempts = world.attempts()
    assert set(attempts.values()) <= {0, 1}
    return {name for name, attempt in attempts.items() if attempt}


@pytest.mark.parametrize("timeout", [{}, {"timeout": "30s"}], ids=["at once", "after 30s"])
def test_pods_that_fail_together_with_different_codes_cost_one_retry(timeout: dict[str, str]) -> None:
    world = workers(5, policy("PodFailed", "RestartPod", **timeout)).running()
    for index, code in enumerate((1, 134, 137, 143)):
        world.set_pod("worker", index, "Failed", code)
    world.settle()
    world.now += 30
    world.settle()
    assert (world.status.retry_count, world.phase) == (1, "Pending")
    assert restarted(world) == {f"worker-{index}" for index in range(4)}
    assert [entry.indexes for entry in world.status.history] == ["0-3"]


@pytest.mark.parametrize("timeouts", [("62s", "60s"), ("60s", "62s")])
def test_tasks_whose_timeouts_end_together_restart_together_in_any_order(timeouts: tuple[str, str]) -> None:
    """The task whose timeout ended later counted a retry of its own, or failed the Job, where it was the first task."""
    tasks = [
        task(name, 2, policies=[policy("PodFailed", "RestartPod", timeout=timeout)])
        for name, timeout in zip("ab", timeouts, strict=True)
    ]
    world = Simulation(job(*tasks, maxRetry=2)).running()
    for name in "ab":
        world.set_pod(name, 0, "Failed", 1, since=world.now)
    world.settle()
    world.now += 60
    world.settle()
    assert (world.status.retry_count, world.phase) == (1, "Pending")
    assert restarted(world) == {"a-0", "b-0"}


def test_a_crash_of_many_tasks_keeps_the_restarts_before_it_in_the_history() -> None:
    restart = [policy("PodFailed", "RestartPod")]
    names = [f"t{number}" for number in range(30)]
    world = Simulation(job(*(task(name, 1, policies=restart) for name in names), maxRetry=9)).running()
    world.set_pod("t0", 0, "Failed", 7)
    world.settle()
    world.running()
    for name in names:
        world.set_pod(name, 0, "Failed", 1)
    world.settle()
    assert world.status.retry_count == 2
    assert "exited with code 7" in world.status.history[0].message


def test_pods_that_are_pending_together_cost_one_retry() -> None:
    world = workers(5, policy("PodPending", "RestartPod", timeout="5m"))
    world.settle()
    world.now += 300
    world.settle()
    assert (world.status.retry_count, world.phase) == (1, "Pending")
    assert len(restarted(world)) == 5


def test_partitions_whose_pods_fail_together_cost_one_retry() -> None:
    restart = policy("PodFailed", "RestartPartition", timeout="30s")
    world = workers(8, restart, partitionPolicy=PARTITIONS).running()
    for index in (0, 2, 7):
        world.set_pod("worker", index, "Failed", 1)
    world.settle()
    world.now += 30
    world.settle()
    assert world.status.retry_count == 1
    assert [entry.indexes for entry in world.status.history] == ["0-3,6-7"]


def test_pods_on_different_attempts_that_fail_together_cost_one_retry() -> None:
    world = workers(3, policy("PodFailed", "RestartPod"), minAvailable=1).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.settle()
    world.running()
    world.set_pod("worker", 0, "Failed", 1)
    world.set_pod("worker", 1, "Failed", 1)
    world.settle()
    assert (world.status.retry_count, world.attempts()) == (2, {"worker-0": 2, "worker-1": 1, "worker-2": 0})


def test_pods_of_several_tasks_that_fail_together_cost_one_retry() -> None:
    """Each task has an entry in the history; the pod that failed first is the culprit, and its entry is the latest."""
    own = task("b", 2, policies=[policy(exitCode=9, action="RestartTask")])
    world = Simulation(
        job(task("a", 2), own, task("c", 1), policies=[policy("PodFailed", "RestartPod")])
    ).running()
    world.set_pod("c", 0, "Failed", 1, since=START)
    world.set_pod("b", 1, "Failed", 9, since=START + 1)
    world.set_pod("a", 1, "Failed", 1, since=START + 2)
    world.settle()
    assert (world.status.retry_count, world.phase) == (1, "Pending")
    assert restarted(world) == {"a-1", "b-0", "b-1", "c-0"}
    assert [(entry.task, entry.action, entry.indexes, entry.retry) for entry in world.status.history] == [
        ("a", "RestartPod", "1", 1),
        ("b", "RestartTask", "0-1", 1),
        ("c", "RestartPod", "0", 1),
    ]
    assert world.status.culprit == world.status.history[-1].culprit
    assert world.culprit.task == "c"


def test_pods_of_one_task_with_policies_of_different_actions_cost_one_retry() -> None:
    policies = [policy(exitCode=1, action="RestartPod"), policy("PodFailed", "RestartPartition")]
    world = workers(8, *policies, partitionPolicy=PARTITIONS).running()
    world.set_pod("worker", 1, "Failed", 1)
    world.set_pod("worker", 4, "Failed", 2)
    world.settle()
    assert (world.status.retry_count, restarted(world)) == (1, {"worker-1", "worker-4", "worker-5"})


def test_a_failure_and_an_eviction_of_one_policy_cost_one_retry() -> None:
    world = workers(4, policy(events=["PodFailed", "PodEvicted"], action="RestartPod")).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.set_pod("worker", 1, "Failed", evicted=True)
    world.set_pod("worker", 2, "Running", terminating=True)
    world.vanish("worker", 3)
    world.settle()
    assert (world.status.retry_count, len(restarted(world))) == (1, 4)


def test_an_event_of_the_whole_task_restarts_all_of_it_with_the_others() -> None:
    world = workers(3, policy(events=["PodFailed", "TaskFailed"], action="RestartPod")).running()
    world.set_pod("worker", 0, "Failed", 1, since=START)
    world.set_pod("worker", 1, "Running", restarts=3, since=START + 1)
    world.now += 1
    world.settle()
    assert (world.status.retry_count, len(restarted(world))) == (1, 3)


def test_a_pod_whose_policy_still_waits_is_not_restarted_with_the_others() -> None:
    policies = [policy(exitCode=1, action="RestartPod"), policy("PodFailed", "RestartPod", timeout="30s")]
    world = workers(3, *policies).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.set_pod("worker", 1, "Failed", 2)
    world.settle()
    assert (world.status.retry_count, restarted(world)) == (1, {"worker-0"})
    assert world.wake_at == START + 30


@pytest.mark.parametrize(
    ("timeout", "seconds", "retries"),
    [("30s", 3.0, 1), ("30s", 3.1, 2), ("1h", 60.0, 1), ("1h", 61.0, 2)],
)
def test_pods_whose_timeouts_end_almost_together_restart_together(
    timeout: str, seconds: float, retries: int
) -> None:
    world = workers(3, policy("PodFailed", "RestartPod", timeout=timeout), maxRetry=9).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.now += seconds
    world.set_pod("worker", 1, "Failed", 2)
    world.settle()
    first = world.wake_at
    while world.wake_at is not None:
        world.now = world.wake_at
        world.settle()
    assert first is not None
    assert (world.status.retry_count, restarted(world)) == (retries, {"worker-0", "worker-1"})


def test_a_failure_that_ends_the_job_still_does_after_the_restart_of_the_others() -> None:
    policies = [policy(exitCode=1, action="RestartPod"), policy("PodFailed", "TerminateJob")]
    world = workers(4, *policies).running()
    for index, code in enumerate((1, 2, 1)):
        world.set_pod("worker", index, "Failed", code, since=START + index)
    assert world.settle().phase is Phase.TERMINATED
    assert world.status.retry_count == 1


@pytest.mark.parametrize(
    ("action", "retries"), [("RestartJob", 1), ("RestartTask", 1), ("RestartPartition", 1), ("RestartPod", 2)]
)
def test_a_pod_that_fails_while_a_restart_is_under_way_costs_a_retry_only_if_it_was_not_restarted(
    action: str, retries: int
) -> None:
    """A failure counts from a pod of the present version and attempt. Those that the restart replaces are of an earlier one."""
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    world = workers(4, policy("PodFailed", action), partitionPolicy=partitions, maxRetry=9).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.tick()
    world.now += 3  # the pods are still terminating
    world.set_pod("worker", 1, "Failed", 1)
    world.settle()
    assert (world.phase, world.status.retry_count) == ("Pending", retries)
    assert {"worker-0", "worker-1"} <= restarted(world)


def test_without_a_run_left_a_crash_of_several_tasks_fails_the_job_once() -> None:
    restart = policy("PodFailed", "RestartPod")
    world = Simulation(job(task("a", 1), task("b", 1), policies=[restart], maxRetry=1)).running()
    world.all("Failed")
    status = world.settle()
    assert (status.phase, status.retry_count, status.history) == (Phase.FAILED, 1, ())
    assert world.attempts() == {"a-0": 0, "b-0": 0}


def test_a_decision_that_was_not_written_is_made_again() -> None:
    world = workers(4, policy("PodFailed", "RestartPod")).running()
    for index in range(4):
        world.set_pod("worker", index, "Failed", index + 1)
    lost, again = world.decide(), world.decide()
    assert lost.steps == again.steps
    world.store(again)  # and no step is done
    world.settle()
    assert (world.status.retry_count, len(restarted(world))) == (1, 4)


def test_the_work_of_a_crash_grows_no_faster_than_its_pods() -> None:
    """All pods fail, with 250 codes and a time each."""
    counts = []
    for size in (1_000, 10_000):
        restart = policy("PodFailed", "RestartPod", timeout="30s")
        the_job, observed = job(task("worker", size), policies=[restart]), Observed()
        status = decide(the_job, Status(), observed, START).status
        for index in range(size):
            failure = Failure("main", 1 + index % 250)
            since = START + index / size
            observed.put(PodFact("worker", index, f"u{index}", phase="Failed", failure=failure, since=since))
        status = decide(the_job, status, observed, START).status

        def crash() -> None:
            nonlocal status
            status = decide(the_job, status, observed, START + 30).status

        counts.append(calls(crash))
        assert (status.retry_count, len(status.memory("worker").attempts.groups[1])) == (1, size)
    assert counts[1] <= 12 * counts[0], counts
