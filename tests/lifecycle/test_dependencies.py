"""dependsOn, the gang that grows with it, and scaling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lifecycle.simulation import Simulation, job, policy, task
from vcjob.admission.limits import MAX_TASKS
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Phase
from vcjob.lifecycle.step import CreatePods, KillPods


def chain(iteration: str | None = "all", **spec: Any) -> Simulation:
    depends = {"name": ["a", "b"], "iteration": iteration}
    tasks = task("a", 2, minAvailable=1), task("b", 1), task("c", 2, dependsOn=depends)
    return Simulation(job(*tasks, **spec))


def created(world: Simulation) -> set[str]:
    return {name for name, _, _ in world.born}


@pytest.mark.parametrize(
    ("iteration", "after_a"), [("all", {"a", "b"}), ("any", {"a", "b", "c"}), (None, {"a", "b"})]
)
def test_a_task_waits_for_all_or_any_of_those_it_names(iteration: str | None, after_a: set[str]) -> None:
    world = chain(iteration)
    world.settle()
    assert created(world) == {"a", "b"}
    world.set_pod("a", 0, "Running")
    world.settle()
    assert created(world) == after_a
    world.set_pod("b", 0, "Succeeded")
    world.settle()
    assert created(world) == {"a", "b", "c"}


def test_running_but_not_ready_does_not_count() -> None:
    world = chain("any")
    world.settle()
    world.set_pod("b", 0, "Running", ready=False)
    world.settle()
    assert created(world) == {"a", "b"}
    assert world.status.state.message.endswith("c waits for the tasks that it depends on")


def test_a_dependency_needs_its_min_available() -> None:
    tasks = task("a", 3, minAvailable=2), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks))
    world.settle()
    world.set_pod("a", 0, "Running")
    world.settle()
    assert created(world) == {"a"}
    world.set_pod("a", 1, "Succeeded")
    world.settle()
    assert created(world) == {"a", "b"}


def test_waiting_for_dependencies_is_the_pending_reason() -> None:
    tasks = task("a", 1), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks))
    world.settle()
    world.set_pod("a", 0, "Running", ready=False)
    assert world.settle().state.reason == "WaitingForDependsOn"


def test_improvement_27_the_ready_tasks_that_a_pod_group_counts_grow() -> None:
    world = chain()
    assert world.decide().ready_tasks == ("a", "b")
    world.settle()
    world.all("Running")
    decision = world.tick()
    assert decision.ready_tasks == ("a", "b", "c")
    assert [step.task for step in decision.steps if isinstance(step, CreatePods)] == ["c"]


def test_improvement_27_a_task_stays_ready_until_the_whole_job_restarts() -> None:
    world = chain()
    world.settle()
    world.all("Running")
    world.settle()
    world.vanish("b", 0)
    world.vanish("c", 0)
    world.settle()
    assert world.status.ready_tasks == ("a", "b", "c")
    assert world.attempts()["c-0"] == 1, "it does not wait again"
    world.command("RestartJob")
    assert world.settle().ready_tasks == ("a", "b")
    assert world.at("c", 0) is None


def test_a_job_whose_dependency_failed_for_good_ends() -> None:
    world = chain()
    world.settle()
    world.set_pod("b", 0, "Failed", 5)
    world.settle()
    assert world.phase == "Pending", "a is still at work"
    world.set_pod("a", 0, "Succeeded")
    world.set_pod("a", 1, "Succeeded")
    assert world.settle().phase is Phase.FAILED
    assert world.status.state.reason == "DependencyFailed"
    assert "b-0 failed" in world.status.state.message


def test_one_available_dependency_is_enough_with_iteration_any() -> None:
    world = chain("any")
    world.settle()
    world.set_pod("b", 0, "Failed", 5)
    world.set_pod("a", 0, "Succeeded")
    world.settle()
    assert created(world) == {"a", "b", "c"}


def test_a_chain_of_tasks_after_a_failed_dependency_fails_the_job() -> None:
    tasks = task("a", 1), task("b", 1, dependsOn={"name": ["a"]}), task("c", 1, dependsOn={"name": ["b"]})
    world = Simulation(job(*tasks))
    world.settle()
    world.set_pod("a", 0, "Failed", 1)
    assert world.settle().phase is Phase.FAILED
    assert world.status.state.reason == "DependencyFailed"


def ready_dependent(**of_b: Any) -> Simulation:
    """Task a was available, so b is ready and runs; then a failed for good."""
    tasks = task("a", 1), task("b", 1, dependsOn={"name": ["a"]}, **of_b)
    world = Simulation(job(*tasks, minAvailable=1))
    world.settle()
    world.set_pod("a", 0, "Running")
    world.settle()
    world.set_pod("b", 0, "Running")
    world.set_pod("a", 0, "Failed", 1)
    world.settle()
    assert world.phase == "Running"
    return world


def test_a_ready_task_restarts_although_its_dependency_has_failed_since() -> None:
    world = ready_dependent(policies=[policy("PodFailed", "RestartTask")])
    world.set_pod("b", 0, "Failed", 1)
    world.settle()
    assert (world.phase, world.attempts()["b-0"]) == ("Running", 1)
    world.set_pod("b", 0, "Succeeded")
    assert world.settle().phase is Phase.COMPLETED


def test_a_lost_pod_of_a_ready_task_is_replaced_although_its_dependency_has_failed_since() -> None:
    world = ready_dependent()
    world.vanish("b", 0)
    world.settle()
    assert (world.phase, world.attempts()["b-0"]) == ("Running", 1)


def test_a_ready_task_without_a_pod_yet_is_waited_for_although_its_dependency_has_failed_since() -> None:
    tasks = task("a", 1), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks, minAvailable=1))
    world.settle()
    world.set_pod("a", 0, "Running")
    world.store(world.decide())  # b is ready; a quota keeps its pod from being created
    world.set_pod("a", 0, "Failed", 1)
    decision = world.decide()
    assert decision.status.phase is Phase.RUNNING
    assert [step.task for step in decision.steps if isinstance(step, CreatePods)] == ["b"]


def dependent() -> Simulation:
    """A task of two pods runs after a task of one, and one of the two has succeeded."""
    world = Simulation(job(task("a", 1), task("b", 2, dependsOn={"name": ["a"]})))
    for _ in range(2):
        world.settle()
        world.all("Running")
    world.set_pod("b", 0, "Succeeded")
    world.settle()
    return world


def test_a_dependency_that_fails_after_a_resume_ends_the_job_although_pods_succeeded_before() -> None:
    """The successes stay, but the other pods of the task wait for its dependency again."""
    world = dependent()
    for action in ("AbortJob", "ResumeJob"):
        world.command(action)
        world.settle()
    assert world.live() == {("a", 0)}
    world.set_pod("a", 0, "Failed", code=1)
    assert (world.settle().phase, world.status.state.reason) == (Phase.FAILED, "DependencyFailed")


def test_a_task_that_another_controller_started_is_ready_although_its_dependency_has_failed_since() -> None:
    world = dependent()
    volcano = {**json.loads(world.stored), "controlledResources": {}}
    world.stored = json.dumps(volcano)
    world.set_pod("a", 0, "Failed", code=1)
    world.settle()
    world.set_pod("b", 1, "Running", terminating=True)
    world.settle()
    assert world.live() == {("b", 1)}
    world.set_pod("b", 1, "Succeeded")
    assert (world.settle().phase, world.status.state.reason) == (Phase.FAILED, "TooFewSucceeded")


def test_scaling_up_creates_only_the_new_indexes() -> None:
    world = Simulation(job(task("worker", 2))).running()
    world.scale(worker=4)
    decision = world.tick()
    assert [s for s in decision.steps if isinstance(s, CreatePods)] == [
        CreatePods("worker", IndexSet.of([2, 3]), 0, 0, 0)
    ]


def test_scaling_down_kills_the_highest_indexes_and_a_later_scale_up_is_their_next_attempt() -> None:
    world = Simulation(job(task("worker", 4, minAvailable=1), minAvailable=1)).running()
    world.set_pod("worker", 3, "Succeeded")
    world.settle()
    world.scale(worker=2)
    decision = world.tick()
    assert [s for s in decision.steps if isinstance(s, KillPods)] == [
        KillPods("worker", IndexSet.of([2, 3]), 0, "Replaced")
    ]
    assert (decision.status.running, decision.status.succeeded, decision.status.terminating) == (2, 0, 2)
    world.settle()
    world.scale(worker=4)
    world.settle()
    assert world.attempts() == {"worker-0": 0, "worker-1": 0, "worker-2": 1, "worker-3": 1}
    assert world.status.retry_count == 0


def test_scaling_while_suspended_takes_effect_at_the_resume_without_a_job_updated_event() -> None:
    policies = [{"event": "JobUpdated", "action": "TerminateJob"}]
    world = Simulation(job(task("worker", 3), policies=policies)).running()
    world.command("AbortJob")
    world.settle()
    world.scale(worker=2)
    world.settle()
    world.command("ResumeJob")
    world.settle()
    assert (world.phase, set(world.attempts())) == ("Pending", {"worker-0", "worker-1"})


def test_a_pod_with_an_index_beyond_the_replicas_is_deleted() -> None:
    """It was being created while the job was scaled down."""
    world = Simulation(job(task("worker", 2))).running()
    world.do(CreatePods("worker", IndexSet.of([2]), 0, 0, 0))
    decision = world.tick()
    assert [s for s in decision.steps if isinstance(s, KillPods)] == [
        KillPods("worker", IndexSet.of([2]), 0, "Replaced")
    ]
    world.settle()
    world.scale(worker=3)
    world.settle()
    assert world.attempts() == {"worker-0": 0, "worker-1": 0, "worker-2": 1}


def test_a_dependency_with_min_available_successes_lets_the_next_task_start() -> None:
    tasks = task("a", 2, minAvailable=1), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks))
    world.settle()
    world.set_pod("a", 0, "Failed", 1)
    world.set_pod("a", 1, "Succeeded")
    world.settle()
    assert created(world) == {"a", "b"}
    world.all("Running")
    world.settle()
    world.all("Succeeded")
    assert world.settle().phase is Phase.COMPLETED


def layered(layers: int, width: int = 4, iteration: str = "all") -> Simulation:
    """Each task depends on every task of the layer below; the top layer comes first."""
    tasks = []
    for layer in reversed(range(layers)):
        below = [f"l{layer - 1}-{place}" for place in range(width)] if layer else []
        depends_on = {"dependsOn": {"name": below, "iteration": iteration}} if below else {}
        tasks += [task(f"l{layer}-{place}", 1, **depends_on) for place in range(width)]
    return Simulation(job(*tasks))


@pytest.mark.parametrize("iteration", ["all", "any"])
def test_layers_of_tasks_start_one_after_the_other(iteration: str) -> None:
    world = layered(14, iteration=iteration)
    for layer in range(14):
        world.settle()
        assert {name.split("-")[0] for name, _ in world.live()} == {f"l{layer}"}
        world.all("Succeeded")
    assert world.settle().phase is Phase.COMPLETED


@pytest.mark.parametrize("first", [True, False])
def test_a_long_chain_of_tasks_gets_a_status_and_fails_when_its_start_does(first: bool) -> None:
    names = [f"t{number}" for number in range(MAX_TASKS)]
    tasks = [task(names[0], 1)]
    tasks += [task(name, 1, dependsOn={"name": [names[place]]}) for place, name in enumerate(names[1:])]
    world = Simulation(job(*(tasks if first else reversed(tasks))))
    world.tick()
    assert (world.phase, set(world.attempts())) == ("Pending", {"t0-0"})
    assert f"and {MAX_TASKS - 6} more" in world.status.state.message
    world.set_pod("t0", 0, "Failed", 1)
    world.tick()
    assert (world.phase, world.status.state.reason) == ("Failed", "DependencyFailed")
    assert len(world.status.state.message) < 300


def test_tasks_in_a_cycle_fail_the_job_instead_of_the_decision() -> None:
    """Admission rejects cycles; a Job that was stored without admission may still have one."""
    tasks = task("a", 1, dependsOn={"name": ["b"]}), task("b", 1, dependsOn={"name": ["a"]})
    world = Simulation(job(*tasks))
    assert world.settle().state.reason == "DependencyFailed"
