"""A Job whose spec was changed into one that must not take effect, after a restart of the controller: it is paused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controller.harness import OWNED, Harness
from tests.cluster.controller.jobs import job, task
from vcjob.lifecycle.indexset import INDEX_LIMIT, IndexSet
from vcjob.plan.plan import Plan

PLUGINS: dict[str, list[str]] = {"pytorch": [], "env": []}
#: The most replicas that the API server accepts.
MOST = 2**31 - 1


def _job(workers: int, port: int = 23456, **spec: Any) -> dict[str, Any]:
    tasks = [task("master", 1, after=None), *(task(f"worker{n}", workers, after=None) for n in range(4))]
    plugins = {**PLUGINS, "pytorch": ["--worker=worker0", f"--port={port}"]}
    return job("j", *tasks, plugins=plugins, **spec)


async def _started(**options: Any) -> Harness:
    harness = Harness(_job(2), status_delay=0.0, **options)
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Running"
    return harness


def _count_and_forbid(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Forbid what takes memory for every index, so that a regression fails instead of using up the machine."""
    built: list[str] = []
    span, objects = IndexSet.span, Plan.objects

    def bounded_span(start: int, stop: int) -> IndexSet:
        if stop > INDEX_LIMIT:
            built.append(f"a set of {stop} indexes")
            return IndexSet()
        return span(start, stop)

    def bounded_objects(self: Plan, **options: Any) -> list[dict[str, Any]]:
        if self.job.replicas > INDEX_LIMIT:
            built.append(f"objects for {self.job.replicas} pods")
            return []
        return objects(self, **options)

    monkeypatch.setattr(IndexSet, "span", bounded_span)
    monkeypatch.setattr(Plan, "objects", bounded_objects)
    return built


async def test_no_object_of_a_paused_job_is_created_or_changed() -> None:
    harness = await _started()
    harness.change(_job(2, port=9999))
    harness.take_over()
    del harness.api.objects["services", "j"]
    harness.take_over()
    before = {key: doc for key, doc in harness.api.objects.items() if key[0] in OWNED}
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidUpdate"
    assert {key: doc for key, doc in harness.api.objects.items() if key[0] in OWNED} == before
    harness.change(_job(2))
    await harness.reconcile()
    assert ("services", "j") in harness.api.objects, "it continues when the change is undone"
    assert harness.stored["state"].get("reason") != "InvalidUpdate"


UNREADABLE = {
    "arguments": {"plugins": {"pytorch": ["--port=abc"]}},
    "a plugin that is not installed": {"plugins": {"mine": []}},
    "plugins of another type": {"plugins": {"pytorch": 5}},
    "tasks of another type": {"tasks": 5},
    "a template of another type": {"tasks": [{"name": "master", "replicas": 1, "template": {"spec": 5}}]},
}


@pytest.mark.parametrize("change", UNREADABLE.values(), ids=UNREADABLE)
async def test_a_job_whose_spec_cannot_be_used_any_more_is_paused_until_the_change_is_undone(
    change: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = await _started()
    harness.change({**_job(2), "spec": {**_job(2)["spec"], **change}})
    harness.take_over()
    await harness.reconcile()
    state, pods = harness.stored["state"], harness.pods()
    assert (state["phase"], state["reason"]) == ("Running", "InvalidUpdate")
    assert state["message"].endswith("delete the Job and create it again")
    examined: list[Any] = []
    monkeypatch.setattr("vcjob.cluster.controller.preparation.admit_job", lambda *args: examined.append(args))
    harness.lose(pods[0])
    await harness.reconcile()
    assert (harness.stored["state"], examined) == (state, []), (
        "it is not checked again at each event of a pod"
    )
    monkeypatch.undo()
    harness.change(_job(2))
    await harness.reconcile()
    assert harness.pods() == pods
    assert harness.stored["state"].get("reason") != "InvalidUpdate"


async def test_a_job_that_has_ended_keeps_its_reason_when_its_spec_cannot_be_used_any_more() -> None:
    harness = await _started()
    for name in harness.pods():
        harness.show(name, "Succeeded")
    await harness.reconcile()
    state = harness.stored["state"]
    harness.change({**_job(2), "spec": {"tasks": 5}})
    harness.take_over()
    await harness.reconcile()
    assert harness.stored["state"] == state and state["phase"] == "Completed"


@pytest.mark.parametrize("ending", ["", "Succeeded"])
async def test_a_job_with_too_many_replicas_takes_no_memory_for_them_after_a_restart(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one Job would end the controller at every start, for all Jobs."""
    harness = await _started(failure_logs=True)
    for name in harness.pods() if ending else []:
        harness.show(name, ending)
    await harness.reconcile()
    harness.show(harness.pods()[0], ending or "Failed")
    harness.change(_job(MOST, minAvailable=1))
    harness.take_over()
    built = _count_and_forbid(monkeypatch)
    await harness.reconcile()
    await harness.reconciler.failure_logs.settle()
    await harness.reconcile()
    assert built == []
    state = harness.stored["state"]
    assert state["phase"] == ("Completed" if ending else "Running")
    assert ending or (state["reason"] == "InvalidUpdate" and "8589934589 pods" in state["message"])
