"""Jobs with a status that Volcano wrote, where vcjob takes over the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controller.harness import OWNER, Harness
from tests.cluster.controller.jobs import job, task

Object = dict[str, Any]
ENDED = "2026-01-01T00:00:10Z"
#: Plugins of Volcano; vcjob rejects a new Job with the second.
PLUGINS: dict[str, dict[str, list[str]]] = {"known": {"env": []}, "unknown": {"ssh": [], "env": []}}


def _status(phase: str) -> Object:
    conditions = [
        {"status": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"status": phase, "lastTransitionTime": ENDED},
    ]
    return {
        "state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:01:00Z"},
        "minAvailable": 2,
        "succeeded": 2,
        "taskStatusCount": {"a": {"phase": {"Succeeded": 2}}},
        "conditions": conditions,
        "controlledResources": {"plugin-env": "env"},
    }


def _volcano_job(phase: str, plugins: dict[str, list[str]], **spec: Any) -> Harness:
    document = job("j", task("a", 2, after=None), plugins=plugins, **spec)
    return Harness({**document, "status": _status(phase)}, status_delay=0.0)


def _add_pods(harness: Harness, phase: str) -> None:
    """Pods as Volcano creates them, without the marks that vcjob adds."""
    for index in range(2):
        marks = {"volcano.sh/task-spec": "a", "volcano.sh/task-index": str(index)}
        meta = {"name": f"j-a-{index}", "annotations": marks, "labels": marks, "ownerReferences": [OWNER]}
        harness.api.put("pods", {"metadata": meta, "spec": {}})
        harness.show(f"j-a-{index}", phase)


async def _events(harness: Harness) -> dict[str, str]:
    await harness.events.drain()
    return {
        doc["reason"]: doc["message"] for (kind, _), doc in harness.api.objects.items() if kind == "events"
    }


@pytest.mark.parametrize("plugins", PLUGINS.values(), ids=PLUGINS)
@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
async def test_a_job_that_ended_keeps_its_status(phase: str, plugins: dict[str, list[str]]) -> None:
    harness = _volcano_job(phase, plugins)
    _add_pods(harness, "Succeeded")
    before = harness.stored
    await harness.reconcile()
    harness.take_over()
    await harness.reconcile()
    assert harness.stored == before
    assert harness.pods() == ["j-a-0", "j-a-1"], "finished pods stay with their logs"
    assert await _events(harness) == {}
    assert harness.state.idle


@pytest.mark.parametrize("plugins", PLUGINS.values(), ids=PLUGINS)
async def test_the_ttl_of_a_job_that_ended_counts_from_its_end(plugins: dict[str, list[str]]) -> None:
    harness = _volcano_job("Completed", plugins, ttlSecondsAfterFinished=10**9)
    await harness.reconcile()
    assert ("jobs", "j") in harness.api.objects and harness.queue.later
    harness = _volcano_job("Completed", plugins, ttlSecondsAfterFinished=60)
    await harness.reconcile()
    assert ("jobs", "j") not in harness.api.objects


async def test_pods_that_outlive_their_job_are_deleted_and_finished_ones_stay() -> None:
    harness = _volcano_job("Completed", PLUGINS["unknown"])
    _add_pods(harness, "Running")
    harness.show("j-a-1", "Failed")
    await harness.reconcile()
    assert harness.pods() == ["j-a-1"]


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting"])
async def test_a_live_job_that_vcjob_would_reject_keeps_its_phase_and_its_pods(phase: str) -> None:
    harness = _volcano_job(phase, PLUGINS["unknown"])
    _add_pods(harness, "Running")
    before, requests = harness.stored, harness.api.requests.copy()
    await harness.reconcile()
    state = harness.stored["state"]
    assert (state["phase"], state["reason"]) == (phase, "InvalidJob")
    assert harness.stored["conditions"] == before["conditions"]
    for part in (
        "spec.plugins.ssh",
        "its pods are left alone",
        "the controller that started it",
        "delete the Job",
    ):
        assert part in state["message"]
    assert harness.pods() == ["j-a-0", "j-a-1"]
    harness.show("j-a-0", "Failed")
    await harness.reconcile()
    harness.take_over()
    await harness.reconcile()
    assert harness.api.requests - requests == {("patch", "jobs"): 1}, "its status is written once"
    assert "spec.plugins.ssh" in (await _events(harness))["InvalidJob"]


async def test_a_live_job_continues_once_vcjob_can_run_it() -> None:
    harness = _volcano_job("Running", PLUGINS["unknown"])
    _add_pods(harness, "Running")
    await harness.reconcile()
    harness.change(job("j", task("a", 2, after=None), plugins=PLUGINS["known"]))
    await harness.reconcile()
    assert harness.stored["state"].get("reason") != "InvalidJob"
    for name in harness.pods():
        harness.show(name, "Succeeded")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Completed"


async def test_the_pods_of_a_job_whose_status_is_lost_are_not_left_without_their_job() -> None:
    """Nothing says any more which spec the Job was started with, and this one would be rejected."""
    harness = Harness(job("j", task("a", 2, after=None)), status_delay=0.0)
    await harness.reconcile()
    unreadable = {"state": {"phase": "Running"}, "controlledResources": {"vcjob.io/lifecycle": "{"}}
    harness.change({**job("j", task("a", 2, after=None), plugins=PLUGINS["unknown"]), "status": unreadable})
    harness.take_over()
    await harness.reconcile()
    state = harness.stored["state"]
    assert (state["phase"], state["reason"]) == ("Running", "InvalidJob")
    assert harness.pods() == ["j-a-0", "j-a-1"]
