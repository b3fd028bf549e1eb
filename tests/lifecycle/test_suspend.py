"""Commands and spec.suspend."""

from __future__ import annotations

import pytest

from tests.lifecycle.simulation import Simulation, job, task
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import CreatePods, DeleteCommand, KillPods


def test_a_job_made_suspended_creates_no_pod_until_it_is_resumed() -> None:
    world = Simulation(job(suspend=True))
    world.settle()
    assert (world.phase, world.born, world.status.suspended_by) == ("Aborted", set(), "spec")
    assert world.status.state.message == "spec.suspend is true"
    world.change(suspend=False)
    world.settle()
    assert (world.phase, len(world.observed.pods), world.status.retry_count) == ("Pending", 3, 0)


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
def test_suspend_aborts_from_every_active_phase_and_resume_spends_no_retry(phase: str) -> None:
    world = Simulation(job())
    world.settle()
    if phase != "Pending":
        world.running()
    if phase == "Restarting":
        world.command("RestartJob")
        world.tick()
    retries = world.status.retry_count
    world.change(suspend=True)
    assert world.tick().status.phase is Phase.ABORTING
    assert world.settle().phase is Phase.ABORTED
    world.change(suspend=None)
    world.running()
    assert world.status.retry_count == retries
    assert world.status.suspended_by == ""


def test_spec_suspend_resumes_only_what_it_suspended() -> None:
    world = Simulation(job(suspend=False)).running()
    world.command("AbortJob")
    world.settle()
    assert (world.phase, world.status.suspended_by) == ("Aborted", "command")
    world.change(suspend=True)
    world.settle()
    assert world.status.suspended_by == "spec"
    world.change(suspend=False)
    world.running()


def test_a_resume_command_is_refused_while_the_spec_suspends() -> None:
    world = Simulation(job(suspend=True))
    world.settle()
    world.command("ResumeJob")
    world.settle()
    assert (world.phase, world.events[-1].reason) == ("Aborted", "CommandRefused")
    assert world.events[-1].message == "ResumeJob was rejected: spec.suspend is true"


def test_a_resume_waits_for_pods_that_are_still_terminating() -> None:
    world = Simulation(job()).running()
    world.command("AbortJob")
    world.tick()
    world.command("ResumeJob")
    decision = world.tick()
    assert decision.status.phase is Phase.RESTARTING
    assert not [s for s in decision.steps if isinstance(s, (CreatePods, KillPods))]
    assert world.settle().phase is Phase.PENDING
    assert set(world.attempts().values()) == {1}


def test_a_command_is_recorded_before_it_is_deleted_and_executed_once() -> None:
    world = Simulation(job()).running()
    world.command("RestartJob", "c-1")
    decision = world.decide()
    assert decision.status.commands == ("c-1",)
    assert decision.steps[0] == DeleteCommand("c-1")
    world.store(decision)
    for _ in range(3):  # the deletion is cut off each time
        again = world.decide()
        world.store(again)
        assert (again.status.retry_count, again.steps[0]) == (1, DeleteCommand("c-1"))
    world.settle()
    assert world.observed.commands == {}
    world.command("RestartJob", "c-1")
    world.settle()
    assert world.status.retry_count == 1, "an old view shows it again"


def test_commands_are_executed_in_the_order_of_their_creation() -> None:
    world = Simulation(job(maxRetry=9)).running()
    world.command("AbortJob", "a")
    world.command("ResumeJob", "b")
    world.command("RestartJob", "c")
    world.command("TerminateJob", "d")
    decision = world.tick()
    phases = [str(c.phase) for c in decision.status.conditions]
    assert phases[2:] == ["Aborting", "Restarting", "Terminating"]
    assert decision.status.retry_count == 0, "the resume is restarting the whole job already"
    assert world.settle().phase is Phase.TERMINATED
    assert world.observed.commands == {}


def test_a_command_with_an_invalid_action_is_rejected_and_deleted() -> None:
    world = Simulation(job()).running()
    for action, why in (("RestartPod", "it needs a pod"), ("Dance", "there is no such action")):
        world.command(action)
        world.settle()
        assert why in world.events[-1].message
    assert (world.phase, world.observed.commands) == ("Running", {})


def test_the_record_of_commands_is_bounded_but_keeps_those_that_still_exist() -> None:
    world = Simulation(job(task("worker", 1))).running()
    world.command("ResumeJob", "first")
    decision = world.decide()
    world.store(decision)  # never deleted
    for _ in range(40):
        world.command("ResumeJob")
        kept = world.observed.commands["first"]
        world.tick()
        world.observed.commands = {"first": kept}
    assert world.status.commands[0] == "first"
    assert len(world.status.commands) == 21
    world.observed.commands = {}
    world.command("ResumeJob")
    world.settle()
    assert len(world.status.commands) == 20


@pytest.mark.parametrize(
    "actions", [("RestartJob",), ("AbortJob", "ResumeJob"), ("TerminateJob",), ("CompleteJob",)]
)
def test_a_command_that_is_executed_is_not_reported_as_rejected(actions: tuple[str, ...]) -> None:
    world = Simulation(job()).running()
    for action in actions:
        world.command(action)
        world.settle()
    assert "CommandRefused" not in [event.reason for event in world.events]


def test_restarts_before_a_quick_resume_do_not_hide_those_after_it() -> None:
    """The pods of before are still terminating when the Job is resumed; their restarts are not those of the new ones."""
    worker = task("worker", 2, policies=[{"event": "TaskFailed", "action": "TerminateJob", "timeout": "1h"}])
    world = Simulation(job(worker)).running()
    world.set_pod("worker", 0, "Running", restarts=3)
    world.command("AbortJob")
    world.tick()
    world.command("ResumeJob")
    world.tick()
    world.running()
    assert (world.status.handled, world.status.holding) == ((), {})
    world.set_pod("worker", 0, "Running", restarts=3)
    world.settle()
    world.now += 3600
    assert world.settle().phase is Phase.TERMINATED


def test_restarts_of_pods_that_had_succeeded_before_a_resume_count_no_longer() -> None:
    worker = task("worker", 2, policies=[{"event": "TaskFailed", "action": "AbortJob"}])
    world = Simulation(job(worker)).running()
    world.set_pod("worker", 0, "Succeeded", restarts=3)
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    world.set_pod("worker", 1, "Running", restarts=2)
    assert world.settle().phase is Phase.RUNNING
    world.set_pod("worker", 1, "Running", restarts=3)
    assert world.settle().phase is Phase.ABORTED


def test_a_task_that_completes_again_after_it_grew_fires_again() -> None:
    worker = task("worker", 2, policies=[{"event": "TaskCompleted", "action": "AbortJob"}])
    world = Simulation(job(worker, task("other", 1))).running()
    world.all("Succeeded", "worker")
    assert world.settle().phase is Phase.ABORTED
    world.command("ResumeJob")
    world.settle()
    world.running()
    world.scale(worker=3)
    world.settle()
    world.all("Succeeded", "worker")
    assert world.settle().phase is Phase.ABORTED


def test_many_commands_are_executed_in_bounded_portions_and_none_is_lost() -> None:
    world = Simulation(job()).running()
    for number in range(950):
        world.command("Dance", f"c-{number}")
    world.command("TerminateJob", "last")
    rounds = 0
    while world.observed.commands:
        rounds += 1
        decision = world.tick()
        assert len([step for step in decision.steps if isinstance(step, DeleteCommand)]) <= 100
        assert world.wake_at == (world.now if world.observed.commands else None)
    assert rounds == 10
    assert [event.reason for event in world.events].count("CommandRefused") == rounds
    assert world.settle().phase is Phase.TERMINATED


def test_commands_wait_where_the_backend_cannot_delete_those_that_were_executed() -> None:
    world = Simulation(job()).running()
    for number in range(1500):
        world.command("Dance", f"c-{number}")
    for _ in range(30):
        world.store(world.decide())
    assert len(world.status.commands) == 1000
    assert world.wake_at is None
    world.settle()
    while world.observed.commands:
        world.settle()
    assert len(world.status.commands) <= 100


def test_commands_that_alternate_between_suspend_and_resume_are_all_executed() -> None:
    world = Simulation(job()).running()
    for _ in range(40):
        world.command("AbortJob")
        world.command("ResumeJob")
    world.settle()
    assert world.observed.commands == {}
    actions = [event.message.split(": ")[1] for event in world.events if event.reason == "ExecuteAction"]
    assert actions.count("AbortJob was requested") == actions.count("ResumeJob was requested") == 40
