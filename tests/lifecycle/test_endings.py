"""How a job ends: minSuccess, minAvailable of job and task, maxRetry, deadline, time to live."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lifecycle.simulation import START, Simulation, job, task, torch_job
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import CreatePods, DeleteJob, KillPods


def finished(world: Simulation, *endings: str) -> Simulation:
    """The workers end with these phases, one after the other."""
    for index, ending in enumerate(endings):
        world.set_pod("worker", index, ending, 1 if ending == "Failed" else None)
    world.settle()
    return world


def test_min_success_ends_the_job_early_and_kills_the_rest() -> None:
    world = Simulation(job(minSuccess=2)).running()
    world.set_pod("worker", 0, "Succeeded")
    assert world.settle().phase is Phase.RUNNING
    world.set_pod("worker", 1, "Succeeded")
    decision = world.tick()
    assert (decision.status.phase, decision.status.state.reason) == (Phase.COMPLETED, "MinSuccessReached")
    assert [step.indexes for step in decision.steps if isinstance(step, KillPods)] == [IndexSet.of([2])]
    assert decision.status.version == 1
    world.settle()
    assert (world.status.succeeded, world.status.running, world.live()) == (2, 0, set())


def test_min_success_is_evaluated_before_policies() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    world = Simulation(job(minSuccess=2, policies=policies)).running()
    assert finished(world, "Succeeded", "Succeeded", "Failed").phase == "Completed"


def test_all_pods_finished_with_min_success_unmet_fails() -> None:
    world = Simulation(job(task("worker", 3, minAvailable=1), minAvailable=1, minSuccess=3)).running()
    assert finished(world, "Succeeded", "Succeeded", "Failed").phase == "Failed"
    assert "2 pods succeeded, minSuccess is 3" in world.status.state.message


def test_a_task_below_its_own_min_available_fails_the_job() -> None:
    tasks = task("worker", 2, minAvailable=1), task("other", 2, minAvailable=2)
    world = Simulation(job(*tasks, minAvailable=3)).running()
    world.set_pod("other", 0, "Failed", 7)
    world.set_pod("other", 1, "Succeeded")
    finished(world, "Succeeded", "Succeeded")
    assert (world.phase, world.status.state.reason) == ("Failed", "TooFewSucceeded")
    assert "other-0 failed: container main exited with code 7" in world.status.state.message
    assert "task other: 1 pods succeeded, 2 are needed" in world.status.state.message
    assert (world.culprit.task, world.culprit.index) == ("other", 0)


def test_a_task_below_its_min_available_does_not_matter_when_the_job_asks_for_less() -> None:
    tasks = task("worker", 2, minAvailable=2), task("other", 1, minAvailable=1)
    world = Simulation(job(*tasks, minAvailable=2)).running()
    world.set_pod("other", 0, "Failed", 7)
    assert finished(world, "Succeeded", "Succeeded").phase == "Completed"


@pytest.mark.parametrize(
    ("endings", "end"),
    [
        (("Succeeded", "Succeeded", "Succeeded"), "Completed"),
        (("Succeeded", "Failed", "Succeeded"), "Completed"),
        (("Succeeded", "Failed", "Failed"), "Failed"),
        (("Failed", "Failed", "Failed"), "Failed"),
    ],
)
def test_all_finished_completes_when_min_available_pods_succeeded(endings: Any, end: str) -> None:
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=2)).running()
    assert finished(world, *endings).phase == end
    assert world.status.succeeded == endings.count("Succeeded")
    assert world.status.failed == endings.count("Failed")
    assert world.status.version == 0, "nothing had to be killed"


def test_pods_that_end_before_they_were_seen_running_still_end_the_job() -> None:
    world = Simulation(job())
    world.settle()
    assert finished(world, "Succeeded", "Succeeded", "Succeeded").phase == "Completed"
    phases = [str(condition.phase) for condition in world.status.conditions]
    assert phases == ["Pending", "Running", "Completed"]


def test_a_job_without_replicas_stays_as_it_is() -> None:
    world = Simulation(job(task("worker", 0)))
    assert world.settle().phase is Phase.PENDING
    assert world.status.state.reason == "NoReplicas"
    running = Simulation(job(task("worker", 1))).running()
    running.scale(worker=0)
    assert running.settle().phase is Phase.RUNNING
    assert running.observed.pods == {}


@pytest.mark.parametrize(("max_retry", "runs"), [(0, 1), (1, 1), (2, 2), (3, 3), (None, 3)])
def test_improvement_19_max_retry_is_the_number_of_runs(max_retry: int | None, runs: int) -> None:
    spec: dict[str, Any] = {} if max_retry is None else {"maxRetry": max_retry}
    world = Simulation(
        job(task("worker", 2), policies=[{"event": "PodFailed", "action": "RestartJob"}], **spec)
    )
    for run in range(1, runs + 1):
        world.running()
        assert world.status.retry_count == run - 1
        assert set(world.attempts().values()) == {run - 1}
        world.set_pod("worker", 1, "Failed", 3)
        world.settle()
    assert (world.phase, world.status.state.reason) == ("Failed", "MaxRetryReached")
    assert world.status.restarts == world.status.retry_count - 1
    assert world.status.retry_count == runs
    assert f"no run is left (maxRetry {runs})" in world.status.state.message
    assert "worker-1 failed: container main exited with code 3" in world.status.state.message


def test_improvement_22_the_last_run_is_killed_soft_so_its_logs_stay() -> None:
    world = Simulation(job(maxRetry=1, policies=[{"event": "PodFailed", "action": "RestartJob"}])).running()
    world.set_pod("worker", 0, "Succeeded")
    world.set_pod("worker", 1, "Failed", 1)
    decision = world.tick()
    assert decision.status.phase is Phase.FAILED
    assert [str(c.phase) for c in decision.status.conditions][-2:] == ["Restarting", "Failed"]
    assert [str(s.indexes) for s in decision.steps if isinstance(s, KillPods)] == ["2"]
    world.settle()
    assert world.attempts() == {"worker-0": 0, "worker-1": 0}
    assert (world.status.succeeded, world.status.failed, world.status.version) == (1, 1, 1)
    assert world.status.history == ()


def test_history_keeps_every_restart_with_its_culprit_and_is_bounded() -> None:
    world = Simulation(job(maxRetry=60, policies=[{"event": "PodFailed", "action": "RestartJob"}]))
    for run in range(30):
        world.running()
        world.now += 1
        world.set_pod("worker", run % 3, "Failed", run + 1)
        world.settle()
    history = world.status.history
    assert len(history) == 20
    assert [entry.retry for entry in history] == list(range(11, 31))
    last = history[-1]
    assert (last.action, last.reason, last.version, last.at) == ("RestartJob", "PodFailed", 30, world.now)
    assert last.culprit is not None and last.culprit.failure is not None
    assert (last.culprit.index, last.culprit.attempt, last.culprit.failure.exit_code) == (2, 29, 30)
    assert len(world.status.conditions) == 50


def test_the_active_deadline_fails_the_job_and_counts_again_after_a_resume() -> None:
    world = Simulation(job(activeDeadlineSeconds=100)).running()
    assert world.wake_at == START + 100
    world.now += 60
    world.change(suspend=True)
    world.settle()
    assert not world.wake_at
    world.now += 500
    world.change(suspend=False)
    world.settle()
    world.running()
    assert world.wake_at == world.now + 100
    world.now += 99.9
    assert world.settle().phase is Phase.RUNNING
    world.now += 0.1
    assert world.settle().phase is Phase.FAILED
    assert world.status.state.reason == "DeadlineExceeded"
    assert "(1m40s)" in world.status.state.message
    assert (world.live(), world.status.version) == (set(), 2)


@pytest.mark.parametrize("phase", ["Pending", "Restarting"])
def test_the_active_deadline_also_counts_before_and_between_runs(phase: str) -> None:
    world = Simulation(job(activeDeadlineSeconds=10))
    world.settle()
    if phase == "Restarting":
        world.command("RestartJob")
        world.tick()
    assert world.phase == phase
    world.now += 10
    world.tick()
    assert (world.phase, world.status.state.reason) == ("Failed", "DeadlineExceeded")


@pytest.mark.parametrize("action", ["CompleteJob", "TerminateJob", "AbortJob"])
def test_improvement_22_time_to_live_counts_from_the_end_and_covers_aborted(action: str) -> None:
    world = Simulation(job(ttlSecondsAfterFinished=30)).running()
    world.command(action)
    world.tick()
    world.now += 100
    assert not world.deleted, "its pods are still ending"
    world.settle()
    assert world.wake_at == world.now + 30
    world.now += 29
    world.settle()
    assert not world.deleted
    world.now += 1
    decision = world.tick()
    assert decision.steps[-1] == DeleteJob()
    assert world.deleted


def test_time_to_live_covers_failed_and_a_ttl_of_zero_is_at_once() -> None:
    world = torch_failed(ttlSecondsAfterFinished=0)
    assert world.deleted


def torch_failed(**spec: Any) -> Simulation:
    world = Simulation(torch_job(**spec)).running()
    world.set_pod("worker", 0, "Failed", 1)
    world.settle()
    assert world.phase == "Failed"
    return world


def test_a_job_that_its_spec_suspends_is_not_deleted_by_its_ttl() -> None:
    world = Simulation(job(ttlSecondsAfterFinished=0, suspend=True))
    world.settle()
    world.now += 10_000
    world.settle()
    assert (world.phase, world.deleted, world.wake_at) == ("Aborted", False, None)


def test_without_a_time_to_live_the_job_stays() -> None:
    world = torch_failed()
    assert (world.wake_at, world.deleted) == (None, False)


def test_running_duration_is_from_first_running_to_the_end() -> None:
    world = Simulation(job())
    world.settle()
    world.now += 100
    world.running()
    world.now += 75.5
    assert world.settle().running_duration is None
    world.all("Succeeded")
    assert world.settle().running_duration == 75.5
    assert world.status.to_kube()["runningDuration"] == "1m15s"
    world.now += 1000
    assert world.settle().running_duration == 75.5


def test_running_duration_counts_from_the_resume() -> None:
    world = Simulation(job()).running()
    world.now += 10
    world.command("AbortJob")
    world.settle()
    world.now += 1000
    world.command("ResumeJob")
    world.settle()
    world.all("Running")
    world.settle()
    world.now += 30
    world.all("Succeeded")
    assert world.settle().running_duration == 30


def test_counters_stay_true_when_finished_pods_are_removed_after_the_end() -> None:
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=2)).running()
    finished(world, "Succeeded", "Failed", "Succeeded")
    for index in range(3):
        world.vanish("worker", index)
        world.settle()
    assert (world.phase, world.status.succeeded, world.status.failed) == ("Completed", 2, 1)
    assert not [s for s in world.decide().steps if isinstance(s, CreatePods)]


def test_a_restart_after_the_last_run_fails_the_job() -> None:
    world = Simulation(job(maxRetry=1)).running()
    world.command("RestartJob")
    world.command("RestartJob")
    world.command("AbortJob")
    decision = world.tick()
    assert (decision.status.phase, decision.status.retry_count) == (Phase.FAILED, 1)
