"""Events of tasks, updates and gangs: when they hold, and that each is acted on once."""

from __future__ import annotations

import pytest

from tests.lifecycle.simulation import START, Simulation, job, policy, task, torch_job, world_with
from vcjob.lifecycle.status import Phase


def test_task_completed_needs_every_replica() -> None:
    world = world_with(task_policies=[policy("TaskCompleted", "CompleteJob")])
    world.set_pod("worker", 0, "Succeeded")
    world.set_pod("worker", 1, "Succeeded")
    assert world.settle().phase is Phase.RUNNING
    world.set_pod("worker", 2, "Succeeded")
    decision = world.tick()
    assert (decision.status.phase, decision.status.state.reason) == (Phase.COMPLETING, "TaskCompleted")
    assert world.settle().phase is Phase.COMPLETED
    assert world.status.succeeded == 3


def test_task_completed_comes_before_failures_of_the_same_second() -> None:
    """A worker that loses its master because the master is done is no failure of the job."""
    tasks = task("master", 1, policies=[policy("TaskCompleted", "CompleteJob")]), task("worker", 2)
    world = Simulation(torch_job(tasks=tasks)).running()
    world.set_pod("worker", 1, "Failed", 1, since=START + 30.0)
    world.set_pod("master", 0, "Succeeded", since=START + 30.4)
    assert world.settle().phase is Phase.COMPLETED


def test_a_failure_of_an_earlier_second_comes_before_task_completed() -> None:
    tasks = task("master", 1, policies=[policy("TaskCompleted", "CompleteJob")]), task("worker", 2)
    world = Simulation(torch_job(tasks=tasks)).running()
    world.set_pod("worker", 1, "Failed", 1, since=START + 29.0)
    world.set_pod("master", 0, "Succeeded", since=START + 30.4)
    assert world.settle().phase is Phase.FAILED


@pytest.mark.parametrize(("max_retry", "needed"), [(None, 3), (5, 5), (1, 1), (0, 1)])
def test_task_failed_when_the_restarts_of_its_pods_together_reach_its_max_retry(
    max_retry: int | None, needed: int
) -> None:
    fields = {} if max_retry is None else {"maxRetry": max_retry}
    worker = task("worker", 2, policies=[policy("TaskFailed")], **fields)
    world = Simulation(job(worker, task("other", 1))).running()
    world.set_pod("other", 0, "Running", restarts=50)
    for restarts in range(1, needed):
        world.set_pod("worker", restarts % 2, "Running", restarts=restarts // 2 + restarts % 2)
    assert world.settle().phase is Phase.RUNNING
    world.set_pod("worker", 0, "Running", restarts=needed // 2)
    world.set_pod("worker", 1, "Running", restarts=needed - needed // 2)
    assert world.settle().phase is Phase.TERMINATED
    assert f"restarted their containers {needed} times" in world.status.state.message


def test_job_updated_fires_once_per_change_of_replicas_or_min_available() -> None:
    world = world_with(policy("JobUpdated", "RestartJob"), maxRetry=9)
    world.scale(other=2)
    assert world.tick().status.phase is Phase.RESTARTING
    world.running()
    assert world.status.retry_count == 1
    world.change(minAvailable=2)
    world.tick()
    assert world.status.retry_count == 2
    assert world.status.state.reason == "JobUpdated"


def test_an_event_that_aborted_the_job_does_not_abort_it_again_after_a_resume() -> None:
    world = world_with(policy("TaskCompleted", "AbortJob"))
    world.set_pod("other", 0, "Succeeded")
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.status.handled == ("TaskCompleted/other",)
    world.all("Succeeded")
    assert world.settle().phase is Phase.ABORTED, "the other task's completion is a new event"


def test_a_failed_pod_runs_again_after_a_resume() -> None:
    world = world_with(policy("PodFailed", "AbortJob"))
    world.set_pod("worker", 1, "Failed", 1)
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.attempts() == {"worker-0": 1, "worker-1": 1, "worker-2": 1, "other-0": 1}
    assert world.status.failed == 0


def test_events_of_an_earlier_attempt_do_not_count() -> None:
    world = world_with(policy("PodFailed", "RestartJob"), maxRetry=9)
    world.set_pod("worker", 0, "Failed", 1)
    world.tick()
    world.set_pod("worker", 1, "Failed", 1)
    world.tick()
    world.reap()
    world.tick()
    assert (world.status.retry_count, world.status.version) == (1, 1)


def test_an_event_handled_at_a_resume_fires_again_after_its_task_was_restarted() -> None:
    policies = [policy("TaskCompleted", "AbortJob"), policy("PodFailed", "RestartTask")]
    tasks = task("worker", 2, minAvailable=1, policies=policies), task("other", 1)
    world = Simulation(job(*tasks, maxRetry=9)).running()
    world.all("Succeeded", "worker")
    world.settle()
    world.command("ResumeJob")
    world.settle()
    assert world.status.handled == ("TaskCompleted/worker",)
    world.scale(worker=3)
    world.settle()
    world.set_pod("worker", 2, "Failed", 1)
    assert not world.settle().handled
    world.running()
    world.all("Succeeded", "worker")
    assert world.settle().phase is Phase.ABORTED


def test_a_resume_policy_for_job_updated_accepts_the_update() -> None:
    world = world_with(policy("JobUpdated", "ResumeJob"))
    before = world.status.shape
    world.scale(other=2)
    assert world.settle().shape != before
    assert world.phase in ("Running", "Pending")
    assert world.status.retry_count == 0


def test_restarts_that_made_the_job_abort_do_not_abort_it_again_after_a_resume() -> None:
    tasks = task("worker", 1, policies=[policy("TaskFailed", "AbortJob")]), task("other", 1)
    world = Simulation(job(*tasks)).running()
    world.set_pod("worker", 0, "Succeeded", restarts=3)
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    assert world.status.handled == ("TaskCompleted/worker",)


def test_an_update_without_a_matching_policy_is_accepted() -> None:
    world = world_with()
    world.scale(other=2)
    assert world.settle().shape == "5,worker=3/3,other=2/2"


def test_a_gang_that_the_scheduler_cannot_place_is_an_unknown_event_of_the_job() -> None:
    world = world_with(policy("Unknown", "RestartJob"))
    world.vanish("worker", 0)
    world.settle()
    world.observed.gang_broken = True
    assert world.tick().status.phase is Phase.RESTARTING
    assert world.status.state.reason == "Unknown"
    assert "the scheduler finds no place for the rest" in world.status.state.message


def test_after_a_restart_a_broken_gang_counts_only_while_pods_run() -> None:
    world = world_with(policy("Unknown", "RestartJob"))
    world.observed.gang_broken = True
    world.settle()
    assert (world.status.phase, world.status.retry_count) == (Phase.PENDING, 1)
    world.observed.gang_broken = False
    world.running()
    assert world.status.retry_count == 1
