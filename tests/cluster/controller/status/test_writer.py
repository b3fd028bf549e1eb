"""When a Job's status is written, and what replaces it until then, against a fake API server."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.cluster.controller.harness import NAMESPACE, OWNER, UID, FakeApi, Harness, _read
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.controller.cache.job_state import UnsavedCounters
from vcjob.cluster.controller.controller import Controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import PARTIAL_CLAIMS, PARTIAL_JOBS
from vcjob.kube.api.client import Client
from vcjob.wellknown.annotations import ATTEMPT

QUOTA = "exceeded quota: few, requested: pods=1"


async def test_objects_are_created_before_pods_and_show_that_the_job_has_started() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    seen: list[tuple[str, str]] = []
    harness.api.refuse = lambda verb, plural, name: seen.append((verb, plural))
    await harness.reconcile()
    assert set(seen[:3]) == {("create", "configmaps"), ("create", "services"), ("create", "networkpolicies")}
    assert seen[3:] == [("create", "pods")] * 3
    assert harness.pods() == ["j-master-0", "j-worker-0", "j-worker-1"]


async def test_new_pods_are_counted_with_the_first_status_that_waits_already() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    await harness.reconcile()
    assert harness.state.unsaved is not None
    assert harness.queue.later == [pytest.approx(60.0, abs=5.0)], "one deadline, the status'"


async def test_a_job_without_objects_has_its_status_written_before_its_pods() -> None:
    harness = Harness(job("j", task("a", 2)), status_delay=60.0)
    seen: list[tuple[str, str]] = []
    harness.api.refuse = lambda verb, plural, name: seen.append((verb, plural))
    await harness.reconcile()
    assert seen == [("patch", "jobs"), ("create", "pods"), ("create", "pods")]


async def test_an_object_that_is_not_watched_does_not_show_that_the_job_has_started() -> None:
    harness = Harness(job("j", task("a", 1)), status_delay=60.0)
    meta = {"name": "j", "uid": "other", "namespace": NAMESPACE, "resourceVersion": "1"}
    harness.state.objects.owned["Widget", "j"] = _read(PARTIAL_CLAIMS, {"metadata": meta})
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Pending"


async def test_a_new_leader_before_the_first_status_repeats_no_attempt() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    await harness.reconcile()
    assert harness.stored == {}
    del harness.api.objects["pods", "j-worker-1"]  # made, and gone before anybody saw it
    harness.take_over()
    await harness.reconcile()
    attempts = {
        name: harness.api.objects["pods", name]["metadata"]["labels"][ATTEMPT] for name in harness.pods()
    }
    assert attempts == {"j-master-0": "0", "j-worker-0": "0", "j-worker-1": "1"}
    assert harness.stored["state"]["phase"] == "Pending"  # the objects alone would no longer show that


async def test_what_is_not_written_yet_is_not_forgotten_because_somebody_writes_into_the_status() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    await harness.reconcile()
    del harness.api.objects["pods", "j-worker-1"]
    harness.state.pods.forget(next(f.uid for f in harness.state.observed.pods.values() if f.index == 1))
    old = harness.api.objects["jobs", "j"]
    harness.jobs.job_changed(_read(PARTIAL_JOBS, harness.api.put("jobs", {**old, "status": {"pending": 9}})))
    await harness.reconcile()
    assert harness.api.objects["pods", "j-worker-1"]["metadata"]["labels"][ATTEMPT] == "1"


async def test_a_new_leader_before_the_first_status_keeps_the_gang() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    harness.api.put("podgroups", {"metadata": {"name": f"j-{UID}", "ownerReferences": [OWNER]}, "spec": {}})
    harness.take_over()
    await harness.reconcile()
    assert harness.state.chosen_gang == "volcano"


async def test_the_first_status_is_written_after_the_delay() -> None:
    harness = Harness(trio("j"), status_delay=1.0)
    await harness.reconcile()
    assert 0 < min(harness.queue.later) <= 1
    harness.state.unsaved = UnsavedCounters(float("-inf"), False)
    await harness.reconcile()
    assert (harness.stored["state"]["phase"], harness.stored["pending"]) == ("Pending", 3)


async def test_counter_only_changes_are_batched() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Pending")
        await harness.reconcile()
    assert harness.api.requests["patch", "jobs"] == 0
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    assert harness.api.requests["patch", "jobs"] == 1
    assert harness.stored["state"]["phase"] == "Running"
    assert harness.stored["running"] == 3


async def test_how_many_pods_wait_may_be_written_later_than_how_many_run() -> None:
    harness = Harness(job("j", task("a", 3)), status_delay=1.0)
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Pending")
    await harness.reconcile()
    assert min(harness.queue.later) > 5  # by then it is asked why they wait
    harness.show(harness.pods()[0], "Running")
    await harness.reconcile()
    assert min(harness.queue.later) <= 1


async def test_nothing_new_costs_no_request() -> None:
    harness = Harness(trio("j"))
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    before = harness.api.requests.total()
    await harness.reconcile()
    assert harness.api.requests.total() == before


async def test_a_changed_job_is_decided_again_before_anything_is_written() -> None:
    harness = Harness(job("j", task("a", 1, after=None)))
    await harness.reconcile()
    harness.api.put("jobs", {**harness.api.objects["jobs", "j"]})  # somebody wrote, and the watch is late
    harness.show("j-a-0", "Running")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Running"
    assert harness.api.requests["get", "jobs"] == 1


async def test_a_job_restored_from_a_backup_wins_over_what_the_watch_showed_during_a_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 1, after=None)))
    backup = harness.api.objects["jobs", "j"]
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    patch = harness.api.patch
    restored: list[Any] = []

    async def restore(resource: Any, *args: Any, **options: Any) -> Any:
        if resource.plural == "jobs" and not restored:
            newer = harness.api.put("jobs", harness.api.objects["jobs", "j"])
            harness.jobs.job_changed(_read(PARTIAL_JOBS, newer))
            harness.api.objects["jobs", "j"] = backup
            restored.append(backup)
        return await patch(resource, *args, **options)

    monkeypatch.setattr(harness.api, "patch", restore)
    await harness.reconcile()
    assert restored and harness.stored["state"]["phase"] == "Running"
    assert harness.api.requests["get", "jobs"] == 1


async def test_a_graceful_stop_writes_the_batched_counters() -> None:
    harness = Harness(trio("j"), status_delay=60.0)
    await harness.reconcile()
    assert harness.stored == {}
    await harness.reconciler.flush()
    assert harness.stored["state"]["phase"] == "Pending"
    await harness.reconciler.flush()
    assert harness.api.requests["patch", "jobs"] == 1


async def test_a_stop_does_not_wait_for_an_unreachable_api_server(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("vcjob.cluster.controller.controller._DRAIN_SECONDS", 0.02)
    controller = Controller(cast(Client, FakeApi()), ControllerOptions(), Silent(), "me")
    monkeypatch.setattr(controller._reconciler, "flush", hangs)
    await controller._flush()
    assert "the API server does not respond" in caplog.text
