"""Policies with a timeout: when it starts, what cancels it, and that it delays the end of the Job."""

from __future__ import annotations

import pytest

from tests.lifecycle.simulation import START, Simulation, job, policy, task, world_with
from vcjob.lifecycle.status import Phase, Status


def test_pod_pending_acts_after_its_timeout_counted_from_the_pods_creation() -> None:
    world = Simulation(job(policies=[policy("PodPending", "AbortJob", timeout="1m")]))
    world.settle()
    world.now += 30
    assert world.settle().phase is Phase.PENDING
    assert world.wake_at == START + 60
    world.set_pod("worker", 0, "Running")
    world.set_pod("worker", 1, "Running")
    world.now += 29.9
    assert world.settle().phase is Phase.PENDING
    world.now += 0.1
    assert world.settle().phase is Phase.ABORTED
    assert world.status.state.message == "worker-2 is still pending; policy of the job: AbortJob after 1m"


def test_pod_pending_is_cancelled_when_the_pod_runs() -> None:
    world = Simulation(job(policies=[policy("PodPending", "AbortJob", timeout="1m")]))
    world.settle()
    world.all("Running")
    world.settle()
    assert world.wake_at is None
    world.now += 100
    assert world.settle().phase is Phase.RUNNING


@pytest.mark.parametrize(
    "timeout", ["3000000h", "9" * 5000 + "s", "5 minutes"], ids=["hours", "digits", "words"]
)
def test_a_stored_timeout_that_cannot_be_read_never_ends(timeout: str) -> None:
    world = world_with(policy("PodFailed", "AbortJob", timeout=timeout))
    world.set_pod("worker", 0, "Failed", 1)
    world.now += 10**9
    assert world.settle().phase is Phase.RUNNING


def test_a_wildcard_policy_without_a_timeout_does_not_match_pod_pending() -> None:
    world = Simulation(job(policies=[policy("*", "TerminateJob")]))
    assert world.settle().phase is Phase.PENDING
    world.all("Unknown")
    assert world.settle().phase is Phase.TERMINATED
    assert world.status.state.reason == "Unknown"


def test_each_pending_pod_has_its_own_timeout() -> None:
    world = Simulation(job(task("worker", 2, minAvailable=1), minAvailable=1, maxRetry=9,
                      policies=[policy("PodPending", "RestartPod", timeout="60s")]))  # fmt: skip
    world.settle()
    world.set_pod("worker", 1, "Running")
    world.settle()
    world.now += 30
    world.vanish("worker", 1)
    world.settle()
    world.now += 30
    world.settle()
    assert world.attempts() == {"worker-0": 1, "worker-1": 1}
    assert world.status.history[-1].indexes == "0"
    assert world.wake_at == START + 90


@pytest.mark.parametrize("event", ["PodFailed", "PodEvicted", "Unknown"])
def test_a_timeout_counts_from_the_time_that_the_pod_reports(event: str) -> None:
    world = world_with(policy(event, timeout="10s"))
    world.now += 2
    phase = "Unknown" if event == "Unknown" else "Failed"
    world.set_pod("worker", 0, phase, evicted=event == "PodEvicted")
    world.now += 5
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 12
    world.now += 5
    assert world.settle().phase is Phase.TERMINATED


def test_a_pod_whose_node_responds_again_cancels_the_timeout() -> None:
    world = world_with(policy("Unknown", timeout="10s"))
    world.set_pod("worker", 0, "Unknown")
    world.settle()
    world.set_pod("worker", 0, "Running")
    world.now += 20
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at is None


def test_improvement_14_a_timeout_continues_across_a_restart_of_the_backend() -> None:
    worker = task("worker", 2, policies=[policy("TaskFailed", timeout="1m")])
    world = Simulation(job(worker)).running()
    world.set_pod("worker", 0, "Running", restarts=3)
    world.settle()
    assert world.status.holding == {"TaskFailed/worker": START}
    world.now += 59
    world.observed.put(next(iter(world.observed.pods.values())))
    assert Status.from_kube(world.status.to_kube()) == world.status
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 60
    world.now += 1
    assert world.settle().phase is Phase.TERMINATED


def test_an_event_that_ends_cancels_its_timeout() -> None:
    world = world_with(policy("JobUpdated", timeout="1m"))
    world.scale(other=2)
    world.settle()
    assert world.status.holding == {"JobUpdated/": START}
    world.scale(other=1)
    world.settle()
    assert (world.status.holding, world.wake_at) == ({}, None)
    world.now += 100
    assert world.settle().phase is Phase.RUNNING


def test_a_pod_that_is_to_be_deleted_does_not_fire_its_policy_again() -> None:
    policies = [policy("PodPending", "RestartPod", timeout="1m")]
    world = Simulation(job(task("worker", 2, minAvailable=1), minAvailable=1, maxRetry=9, policies=policies))
    world.settle()
    world.set_pod("worker", 0, "Running")
    world.settle()
    world.now += 60
    for _ in range(3):  # cut off before the first step, each time
        world.store(world.decide())
    assert world.status.retry_count == 1
    assert world.status.phase is Phase.RUNNING


def test_a_gang_that_is_complete_again_cancels_the_timeout() -> None:
    world = world_with(policy("Unknown", timeout="1m"))
    world.observed.gang_broken = True
    world.settle()
    assert (world.status.holding, world.wake_at) == ({"Unknown/": START}, START + 60)
    world.now += 30
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 60
    world.observed.gang_broken = False
    assert world.settle().holding == {}


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_policy_that_waits_acts_although_the_last_pods_have_ended(replicas: int) -> None:
    restart = policy("PodFailed", "RestartJob", timeout="30s")
    world = Simulation(job(task("worker", replicas), policies=[restart])).running()
    for index in range(replicas):
        world.set_pod("worker", index, "Failed", 1)
        world.now += 1
    assert world.settle().phase is Phase.RUNNING
    assert world.wake_at == START + 30
    world.now = START + 30
    world.settle()
    assert (world.phase, world.status.retry_count, len(world.live())) == ("Pending", 1, replicas)


def test_a_completed_task_restarts_the_job_after_the_timeout_although_all_pods_succeeded() -> None:
    world = Simulation(job(policies=[policy("TaskCompleted", "RestartJob", timeout="30s")])).running()
    world.all("Succeeded")
    assert world.settle().phase is Phase.RUNNING
    world.now += 30
    assert world.settle().phase is Phase.PENDING
    assert set(world.attempts().values()) == {1}


def test_a_policy_that_waits_acts_although_a_dependency_has_failed() -> None:
    tasks = task("a", 1), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks, policies=[policy("PodFailed", "RestartJob", timeout="30s")]))
    world.settle()
    world.set_pod("a", 0, "Failed", 1)
    assert world.settle().phase is Phase.PENDING
    world.now += 30
    world.settle()
    assert (world.phase, world.status.retry_count) == ("Pending", 1)


def test_a_policy_without_effect_does_not_keep_the_job_from_ending() -> None:
    world = Simulation(job(policies=[policy("PodFailed", "ResumeJob", timeout="30s")])).running()
    world.all("Failed")
    assert world.settle().phase is Phase.FAILED


def test_min_success_completes_the_job_although_a_policy_waits() -> None:
    restart = policy("PodFailed", "RestartJob", timeout="30s")
    world = Simulation(job(policies=[restart], minSuccess=1)).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.settle()
    world.set_pod("worker", 1, "Succeeded")
    assert world.settle().phase is Phase.COMPLETED
