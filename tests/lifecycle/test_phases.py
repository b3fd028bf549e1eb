"""Every cell of the table of phases and actions."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from tests.lifecycle.simulation import Simulation, job, task, torch_job
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import CreatePods, KillPods

StepType = TypeVar("StepType", CreatePods, KillPods)


def steps_of(decision: Decision, kind: type[StepType]) -> list[StepType]:
    return [step for step in decision.steps if isinstance(step, kind)]


def world_in(phase: Phase) -> Simulation:
    """Three workers, one of them succeeded where the phase allows it, in the given phase."""
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=3, maxRetry=3))
    world.settle()
    if phase is Phase.PENDING:
        return world
    world.all("Running")
    world.settle()
    world.set_pod("worker", 0, "Succeeded")
    world.settle()
    action = {
        Phase.RESTARTING: "RestartJob",
        Phase.ABORTING: "AbortJob",
        Phase.ABORTED: "AbortJob",
        Phase.TERMINATING: "TerminateJob",
        Phase.TERMINATED: "TerminateJob",
        Phase.COMPLETING: "CompleteJob",
        Phase.COMPLETED: "CompleteJob",
    }.get(phase)
    if action:
        world.command(action)
        world.tick()
    if phase in (Phase.ABORTED, Phase.TERMINATED, Phase.COMPLETED):
        world.reap()
        world.tick()
    if phase is Phase.FAILED:
        world.set_pod("worker", 1, "Failed", 1)
        world.set_pod("worker", 2, "Failed", 1)
        world.settle()
    assert world.phase == phase
    return world


def test_a_new_job_is_pending_and_all_its_pods_are_created_in_one_step() -> None:
    world = Simulation(torch_job(workers=3))
    decision = world.decide()
    assert decision.status.phase is Phase.PENDING
    assert steps_of(decision, CreatePods) == [
        CreatePods("master", IndexSet.span(0, 1), 0, 0, 0),
        CreatePods("worker", IndexSet.span(0, 3), 0, 0, 0),
    ]
    assert [condition.phase for condition in decision.status.conditions] == [Phase.PENDING]
    assert decision.status.state.since == world.now


@pytest.mark.parametrize("ended", ["Running", "Succeeded", "Failed"])
def test_pending_becomes_running_when_min_available_pods_run_or_ended(ended: str) -> None:
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=2))
    world.settle()
    world.set_pod("worker", 0, "Running")
    world.settle()
    assert world.phase == "Pending"
    world.set_pod("worker", 2, ended, 1 if ended == "Failed" else None)
    assert world.settle().phase is Phase.RUNNING
    assert world.status.state.reason == "MinAvailableReached"


def test_an_unknown_pod_does_not_count_as_up() -> None:
    world = Simulation(job(task("worker", 2)))
    world.settle()
    world.all("Unknown")
    assert world.settle().phase is Phase.PENDING
    assert world.status.unknown == 2


def test_running_goes_back_to_pending_when_too_many_pods_are_pending() -> None:
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=2)).running()
    world.vanish("worker", 0)
    world.settle()
    assert (world.phase, world.status.pending) == ("Running", 1)
    world.vanish("worker", 1)
    assert world.settle().phase is Phase.PENDING
    assert world.status.pending == 2


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING])
def test_restart_job_kills_all_pods_finished_ones_too_and_spends_a_retry(phase: Phase) -> None:
    world = world_in(phase)
    world.command("RestartJob")
    decision = world.tick()
    assert decision.status.phase is Phase.RESTARTING
    assert (decision.status.retry_count, decision.status.version) == (1, 1)
    assert steps_of(decision, KillPods) == [KillPods("worker", IndexSet.span(0, 3), 0, "Replaced")]
    assert not steps_of(decision, CreatePods)
    assert decision.status.terminating == 3
    assert (decision.status.running, decision.status.succeeded, decision.status.pending) == (0, 0, 0)
    world.reap()
    after = world.tick()
    assert after.status.phase is Phase.PENDING
    assert steps_of(after, CreatePods) == [CreatePods("worker", IndexSet.span(0, 3), 1, 1, 1)]


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING])
@pytest.mark.parametrize(
    ("action", "hit"),
    [("RestartPod", "2"), ("RestartPartition", "2-3"), ("RestartTask", "0-3")],
)
def test_a_targeted_restart_kills_its_target_alone_and_spends_a_retry(
    phase: Phase, action: str, hit: Any
) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    partitions = {"totalPartitions": 2, "partitionSize": 2}
    world = Simulation(
        job(
            task("worker", 4, policies=policies, partitionPolicy=partitions),
            task("other", 1),
            maxRetry=3,
        )
    )
    world.settle()
    if phase is Phase.RUNNING:
        world.all("Running")
        world.settle()
    world.set_pod("worker", 2, "Failed", 1)
    decision = world.tick()
    assert decision.status.phase is Phase.RESTARTING
    assert (decision.status.retry_count, decision.status.version) == (1, 0)
    assert steps_of(decision, KillPods) == [KillPods("worker", IndexSet.parse(hit), 0, "Replaced")]
    restart = decision.status.restarting
    assert restart is not None and (restart.task, restart.indexes) == ("worker", hit)
    world.settle()
    expected = {f"worker-{i}": int(i in IndexSet.parse(hit)) for i in range(4)}
    assert world.attempts() == {**expected, "other-0": 0}
    assert world.status.restarting is None


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING, Phase.RESTARTING])
@pytest.mark.parametrize(
    ("action", "during", "after"),
    [
        ("AbortJob", Phase.ABORTING, Phase.ABORTED),
        ("TerminateJob", Phase.TERMINATING, Phase.TERMINATED),
        ("CompleteJob", Phase.COMPLETING, Phase.COMPLETED),
    ],
)
def test_improvement_17_abort_terminate_and_complete_are_honoured_and_keep_finished_pods(
    phase: Phase, action: str, during: Phase, after: Phase
) -> None:
    world = world_in(phase)
    version, retries = world.status.version, world.status.retry_count
    kept = {(p.task, p.index) for p in world.observed.pods.values() if p.done and not p.terminating}
    world.command(action)
    decision = world.tick()
    assert decision.status.phase is during
    assert decision.status.version == version + 1
    assert all(not kept & {(k.task, i) for i in k.indexes} for k in steps_of(decision, KillPods))
    assert not steps_of(decision, CreatePods)
    world.reap()
    world.settle()
    assert world.phase == after
    assert world.live() == set()
    assert {(p.task, p.index) for p in world.observed.pods.values()} == kept
    assert world.status.retry_count == retries
    assert world.status.finished == world.now


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING])
def test_resume_of_a_job_that_is_not_suspended_changes_nothing(phase: Phase) -> None:
    world = world_in(phase)
    before = world.status
    world.command("ResumeJob", "r")
    world.settle()
    assert (world.phase, world.status.retry_count, world.status.version) == (phase, 0, 0)
    assert world.status.conditions == before.conditions
    assert world.observed.commands == {}


def test_commands_that_are_rejected_in_one_decision_are_one_event() -> None:
    world = world_in(Phase.RUNNING)
    for number in range(50):
        world.command(f"Dance{number}")
    world.command("ResumeJob")
    world.command("ResumeJob")
    world.settle()
    rejected = [event.message for event in world.events if event.reason == "CommandRefused"]
    assert len(rejected) == 1
    assert rejected[0].startswith("Dance0 was rejected: there is no such action; Dance1 was rejected")
    assert rejected[0].endswith("and 46 more")
    assert world.observed.commands == {}


def test_restarting_waits_until_enough_old_pods_no_longer_exist() -> None:
    world = Simulation(job(task("worker", 3, minAvailable=2), minAvailable=2)).running()
    world.command("RestartJob")
    world.tick()
    world.observed.drop("worker-1-0")
    decision = world.tick()
    assert decision.status.phase is Phase.RESTARTING
    world.observed.drop("worker-0-0")
    decision = world.tick()
    assert decision.status.phase is Phase.PENDING
    assert steps_of(decision, CreatePods) == [CreatePods("worker", IndexSet.of([0, 1]), 1, 1, 1)]


def test_restart_job_replaces_a_restart_of_one_pod_and_is_rejected_during_one_of_the_whole_job() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    world = Simulation(job(task("worker", 3, policies=policies), maxRetry=5)).running()
    world.set_pod("worker", 1, "Failed", 1)
    world.tick()
    world.command("RestartJob", "a")
    assert world.tick().status.retry_count == 2
    assert world.status.version == 1
    world.command("RestartJob", "b")
    assert world.tick().status.retry_count == 2
    assert world.events[-1].reason == "CommandRefused"
    world.settle()
    assert world.attempts() == {"worker-0": 1, "worker-1": 2, "worker-2": 1}


@pytest.mark.parametrize("phase", [Phase.ABORTING, Phase.ABORTED])
def test_improvement_19_resume_restarts_without_spending_a_retry_and_never_reruns_what_succeeded(
    phase: Phase,
) -> None:
    world = world_in(phase)
    world.command("ResumeJob")
    decision = world.tick()
    assert world.status.retry_count == 0
    assert "Restarting" in [c.phase for c in decision.status.conditions]
    world.settle()
    assert world.phase == "Pending"
    assert world.attempts() == {"worker-0": 0, "worker-1": 1, "worker-2": 1}
    world.all("Running")
    world.settle()
    world.all("Succeeded")
    assert world.settle().phase is Phase.COMPLETED
    assert world.status.succeeded == 3


@pytest.mark.parametrize("phase", [Phase.ABORTING, Phase.ABORTED])
@pytest.mark.parametrize("action", ["RestartJob", "AbortJob"])
def test_a_suspended_job_is_not_restarted_or_aborted_again(phase: Phase, action: str) -> None:
    world = world_in(phase)
    before = world.status
    world.command(action)
    decision = world.decide()
    assert (decision.status.phase, decision.status.version) == (phase, before.version)
    assert decision.status.retry_count == before.retry_count


@pytest.mark.parametrize("phase", [Phase.ABORTING, Phase.ABORTED])
@pytest.mark.parametrize(("action", "end"), [("TerminateJob", "Terminated"), ("CompleteJob", "Completed")])
def test_a_suspended_job_can_be_stopped(phase: Phase, action: str, end: str) -> None:
    world = world_in(phase)
    version = world.status.version
    world.command(action)
    world.settle()
    assert (world.phase, world.status.version, world.status.suspended_by) == (end, version, "")


@pytest.mark.parametrize("phase", [Phase.COMPLETING, Phase.TERMINATING])
@pytest.mark.parametrize("action", ["RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob"])
def test_a_job_that_is_ending_ignores_every_action(phase: Phase, action: str) -> None:
    world = world_in(phase)
    world.command(action)
    assert world.decide().status.phase is phase
    world.settle()
    assert world.phase == {"Completing": "Completed", "Terminating": "Terminated"}[phase]
    assert world.observed.commands == {}
    assert "CommandRefused" in [event.reason for event in world.events]


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED])
@pytest.mark.parametrize("action", ["RestartJob", "AbortJob", "TerminateJob", "CompleteJob", "ResumeJob"])
def test_a_finished_job_stays_finished(phase: Phase, action: str) -> None:
    world = world_in(phase)
    before = world.status
    world.command(action, "late")
    world.settle()
    assert world.status.state == before.state
    assert world.status.conditions == before.conditions
    assert (world.events[-1].reason, world.observed.commands) == ("CommandRefused", {})


@pytest.mark.parametrize("phase", [Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED, Phase.ABORTED])
def test_a_pod_that_appears_after_the_end_is_deleted_and_finished_ones_stay(phase: Phase) -> None:
    world = world_in(phase)
    succeeded = world.status.succeeded
    stray = CreatePods("worker", IndexSet.of([7]), 0, 0, 0)
    world.do(stray)
    decision = world.tick()
    assert steps_of(decision, KillPods) == [KillPods("worker", IndexSet.of([7]), 0, str(phase))]
    assert decision.status.phase is phase
    assert decision.status.succeeded == succeeded == 1


def test_a_pod_of_an_unknown_task_is_deleted_and_delays_the_end() -> None:
    world = Simulation(job()).running()
    world.do(CreatePods("stranger", IndexSet.of([0]), 0, 0, 0))
    world.command("TerminateJob")
    decision = world.tick()
    assert KillPods("stranger", IndexSet.of([0]), 0, "Replaced") in decision.steps
    for index in range(3):
        world.observed.drop(f"worker-{index}-0")
    assert world.tick().status.phase is Phase.TERMINATING
    world.observed.drop("stranger-0-0")
    assert world.tick().status.phase is Phase.TERMINATED


def test_a_terminating_pod_delays_the_end_although_it_has_failed() -> None:
    world = Simulation(job(task("worker", 1))).running()
    world.command("AbortJob")
    world.tick()
    world.set_pod("worker", 0, "Failed", 143)
    assert world.tick().status.phase is Phase.ABORTING
    assert world.status.failed == 0
    world.reap()
    assert world.tick().status.phase is Phase.ABORTED
