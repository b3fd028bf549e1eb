"""When a Job's status is written, and what stands for it until then, on a pretended API server."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.cluster.controller.harness import NAMESPACE, OWNER, UID, FakeApi, Harness, _read
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.controller.controller import Controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.status.throttle import Unsaved
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import PARTIAL_CLAIMS, PARTIAL_JOBS
from vcjob.kube.api.client import Client

ATTEMPT = "vcjob.io/attempt"
QUOTA = "exceeded quota: few, requested: pods=1"


async def test_objects_come_before_pods_and_say_that_the_job_has_begun() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    seen: list[tuple[str, str]] = []
    stage.api.refuse = lambda verb, plural, name: seen.append((verb, plural))
    await stage.look()
    assert set(seen[:3]) == {("create", "configmaps"), ("create", "services"), ("create", "networkpolicies")}
    assert seen[3:] == [("create", "pods")] * 3
    assert stage.pods() == ["j-master-0", "j-worker-0", "j-worker-1"]


async def test_a_job_without_objects_has_its_status_written_before_its_pods() -> None:
    stage = Harness(job("j", task("a", 2)), status_delay=60.0)
    seen: list[tuple[str, str]] = []
    stage.api.refuse = lambda verb, plural, name: seen.append((verb, plural))
    await stage.look()
    assert seen == [("patch", "jobs"), ("create", "pods"), ("create", "pods")]


async def test_an_object_that_nobody_watches_does_not_tell_that_the_job_has_begun() -> None:
    stage = Harness(job("j", task("a", 1)), status_delay=60.0)
    meta = {"name": "j", "uid": "other", "namespace": NAMESPACE, "resourceVersion": "1"}
    stage.entry.owned["Widget", "j"] = _read(PARTIAL_CLAIMS, {"metadata": meta})
    await stage.look()
    assert stage.stored["state"]["phase"] == "Pending"


async def test_one_who_takes_over_before_the_first_status_makes_no_attempt_twice() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    await stage.look()
    assert stage.stored == {}
    del stage.api.objects["pods", "j-worker-1"]  # made, and gone before anybody saw it
    stage.take_over()
    await stage.look()
    attempts = {name: stage.api.objects["pods", name]["metadata"]["labels"][ATTEMPT] for name in stage.pods()}
    assert attempts == {"j-master-0": "0", "j-worker-0": "0", "j-worker-1": "1"}
    assert stage.stored["state"]["phase"] == "Pending"  # now it could not be told from the objects any more


async def test_what_is_not_written_yet_is_not_forgotten_because_somebody_writes_into_the_status() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    await stage.look()
    del stage.api.objects["pods", "j-worker-1"]
    stage.entry.forget_pod(next(f.uid for f in stage.entry.observed.pods.values() if f.index == 1))
    old = stage.api.objects["jobs", "j"]
    stage.board.job_changed(_read(PARTIAL_JOBS, stage.api.put("jobs", {**old, "status": {"pending": 9}})))
    await stage.look()
    assert stage.api.objects["pods", "j-worker-1"]["metadata"]["labels"][ATTEMPT] == "1"


async def test_one_who_takes_over_before_the_first_status_keeps_to_the_gang_that_was_begun_with() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    stage.api.put("podgroups", {"metadata": {"name": f"j-{UID}", "ownerReferences": [OWNER]}, "spec": {}})
    stage.take_over()
    await stage.look()
    assert stage.entry.chosen_gang == "volcano"


async def test_the_first_status_comes_within_a_moment() -> None:
    stage = Harness(trio("j"), status_delay=1.0)
    await stage.look()
    assert 0 < min(stage.wishes.later) <= 1
    stage.entry.unsaved = Unsaved(float("-inf"), False)
    await stage.look()
    assert (stage.stored["state"]["phase"], stage.stored["pending"]) == ("Pending", 3)


async def test_counters_alone_wait_for_company() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    await stage.look()
    for name in stage.pods():
        stage.show(name, "Pending")
        await stage.look()
    assert stage.api.requests["patch", "jobs"] == 0
    for name in stage.pods():
        stage.show(name, "Running")
    await stage.look()
    assert stage.api.requests["patch", "jobs"] == 1
    assert stage.stored["state"]["phase"] == "Running"
    assert stage.stored["running"] == 3


async def test_how_many_pods_wait_may_be_written_later_than_how_many_run() -> None:
    stage = Harness(job("j", task("a", 3)), status_delay=1.0)
    await stage.look()
    for name in stage.pods():
        stage.show(name, "Pending")
    await stage.look()
    assert min(stage.wishes.later) > 5  # by then it is asked why they wait
    stage.show(stage.pods()[0], "Running")
    await stage.look()
    assert min(stage.wishes.later) <= 1


async def test_nothing_new_costs_no_request() -> None:
    stage = Harness(trio("j"))
    await stage.look()
    for name in stage.pods():
        stage.show(name, "Running")
    await stage.look()
    before = stage.api.requests.total()
    await stage.look()
    assert stage.api.requests.total() == before


async def test_a_changed_job_is_decided_on_anew_before_anything_is_written() -> None:
    stage = Harness(job("j", task("a", 1, after=None)))
    await stage.look()
    stage.api.put("jobs", {**stage.api.objects["jobs", "j"]})  # somebody wrote, and the watch is late
    stage.show("j-a-0", "Running")
    await stage.look()
    assert stage.stored["state"]["phase"] == "Running"
    assert stage.api.requests["get", "jobs"] == 1


async def test_a_stop_in_good_order_writes_what_waits() -> None:
    stage = Harness(trio("j"), status_delay=60.0)
    await stage.look()
    assert stage.stored == {}
    await stage.reconciler.write_what_waits()
    assert stage.stored["state"]["phase"] == "Pending"
    await stage.reconciler.write_what_waits()
    assert stage.api.requests["patch", "jobs"] == 1


async def test_a_stop_does_not_wait_for_an_api_server_that_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("vcjob.cluster.controller.controller._WIND_DOWN", 0.02)
    controller = Controller(cast(Client, FakeApi()), ControllerOptions(), Silent(), "me")
    monkeypatch.setattr(controller._reconciler, "write_what_waits", hangs)
    await controller._say_what_waits()
    assert "the API server does not answer" in caplog.text
