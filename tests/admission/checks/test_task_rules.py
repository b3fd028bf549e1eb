"""Checks of the tasks of a new Job: numbers, plugins and dependencies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, errors, job, pytorch_job, refused, task, warned
from vcjob.admission import limits

WORK = "spec.tasks[0]"


@pytest.mark.parametrize("tasks", [[], None])
def test_no_tasks(tasks: list[Any] | None) -> None:
    doc = job()
    doc["spec"]["tasks"] = tasks
    assert "add a task" in (refused(doc, "spec.tasks", "No task specified").hint or "")


def test_no_tasks_at_all() -> None:
    doc = job()
    del doc["spec"]["tasks"]
    refused(doc, "spec.tasks", "No task specified")


def test_duplicate_task_names() -> None:
    refused(job(task("a"), task("b"), task("a")), "spec.tasks[2].name", "spec.tasks[0] has the same name")


def test_a_default_name_can_collide_too() -> None:
    refused(job(task("default1"), task("")), "spec.tasks[1].name", "duplicated task name `default1`")


def test_task_min_available_above_its_replicas() -> None:
    refused(job(task(replicas=2, minAvailable=3), minAvailable=1), f"{WORK}.minAvailable", "3 of 2")
    admitted(job(task(replicas=2, minAvailable=2)))


def test_job_min_available_above_all_replicas() -> None:
    refused(job(task("a", 2), task("b", 1), minAvailable=4), "spec.minAvailable", "4 of 3")
    admitted(job(task("a", 2), task("b", 1), minAvailable=3))


def test_a_job_of_no_replicas_is_admitted() -> None:
    assert admitted(job(task(replicas=0))).job is not None


def test_more_pods_than_a_cluster_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(job(task(replicas=2**31 - 1), plugins={"svc": []}), "spec.tasks", "at most 150000")
    monkeypatch.setattr(limits, "MAX_REPLICAS", 3)
    admitted(job(task(replicas=3)))
    refused(job(task(replicas=4)), "spec.tasks", "4 pods; at most 3")


def test_a_min_success_that_can_never_be_met_is_warned_about() -> None:
    warned(job(task(replicas=2), minSuccess=3), "spec.minSuccess", "never be met")
    assert admitted(job(task(replicas=2), minSuccess=2)).problems == []


def after(name: str, *needed: str) -> dict[str, Any]:
    return task(name, dependsOn={"name": list(needed)})


def test_depends_on_that_names_no_task() -> None:
    problem = refused(
        job(task("first"), after("b", "first", "frist")),
        "spec.tasks[1].dependsOn.name[1]",
        "no task named `frist`",
    )
    assert problem.hint == "did you mean `first`?"


def test_depends_on_that_forms_a_cycle() -> None:
    refused(
        job(after("a", "b"), after("b", "c"), after("c", "a")), "spec.tasks[2].dependsOn", "a → b → c → a"
    )
    refused(job(task("x"), after("a", "a", "x")), "spec.tasks[1].dependsOn", "a → a")


def test_two_cycles_are_two_problems() -> None:
    found = errors(job(after("a", "b"), after("b", "a"), after("c", "d"), after("d", "c"), after("e", "a")))
    assert len(found) == 2


def test_a_diamond_is_no_cycle() -> None:
    admitted(job(task("a"), after("b", "a"), after("c", "a"), after("d", "b", "c")))


def test_a_long_chain_is_no_problem() -> None:
    chain = [task("t0")] + [after(f"t{i}", f"t{i - 1}") for i in range(1, 2000)]
    admitted(job(*reversed(chain)))
    refused(job(after("t0", "t1999"), *chain[1:]), "spec.tasks[1].dependsOn", "cycle")


@pytest.mark.parametrize("name", ["ssh", "mpi", "tensorflow", "ray", "hcclrank"])
def test_volcanos_other_plugins_are_refused_with_a_sentence(name: str) -> None:
    assert refused(job(plugins={name: []}), f"spec.plugins.{name}", "is not supported").hint


def test_unknown_plugin() -> None:
    problem = refused(job(plugins={"pytroch": []}), "spec.plugins.pytroch", "pytroch")
    assert "pytorch" in (problem.hint or "")


def test_bad_flags_and_bad_policies_are_reported_at_once() -> None:
    doc = pytorch_job("--port=abc", policies=[{"event": "X", "action": "AbortJob"}])
    assert {problem.path for problem in errors(doc)} == {"spec.plugins.pytorch[0]", "spec.policies[0].event"}
