"""Reconciles of one Job against a fake API server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, Harness, _read
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.controller.admission import admit_job
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import PARTIAL_SERVICES
from vcjob.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from vcjob.lifecycle.decide import decide
from vcjob.plugins.edition import EDITION

ATTEMPT = "vcjob.io/attempt"
QUOTA = "exceeded quota: few, requested: pods=1"


def refusing(verb: str, plural: str, error: Callable[[], ApiError | Unreachable]) -> Callable[..., Any]:
    return lambda asked, kind, name: error() if (asked, kind) == (verb, plural) else None


async def test_what_the_watch_shows_before_an_answer_comes_is_not_overwritten_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a scheduler lets a PodGroup in at the very moment it is made: nobody would say so again."""
    harness = Harness(job("j", task("a", 1), plugins={"svc": []}))
    create = harness.api.create

    async def slow_answer(resource: Any, body: Any, namespace: str, **options: Any) -> Any:
        made = await create(resource, body, namespace, **options)
        if resource.plural == "services":
            changed = harness.api.put("services", harness.api.objects["services", "j"])
            harness.jobs.object_changed("Service", _read(PARTIAL_SERVICES, changed))
        return made

    monkeypatch.setattr(harness.api, "create", slow_answer)
    await harness.reconcile()
    newest = harness.api.objects["services", "j"]["metadata"]["resourceVersion"]
    assert harness.state.objects.owned["Service", "j"].metadata.resource_version == newest


@pytest.mark.parametrize("job_gone", [False, True])
async def test_a_pod_that_the_server_left_half_deleted_is_deleted_after_a_while(
    monkeypatch: pytest.MonkeyPatch, job_gone: bool
) -> None:
    harness = Harness(trio("j"))
    await harness.reconcile()
    half = harness.api.objects["pods", "j-worker-0"]
    half["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    if job_gone:
        del harness.api.objects["jobs", "j"]
    harness.take_over()
    await harness.reconcile()
    assert ("delete", "pods") not in harness.api.requests
    monkeypatch.setattr("vcjob.cluster.controller.objects.pod_control.HALF_DELETED_SECONDS", -1.0)
    await harness.reconcile()
    assert harness.api.requests["delete", "pods"] == 1
    assert "j-worker-0" not in harness.pods()


async def test_a_refusal_is_the_reason_and_is_tried_again_with_one_pod() -> None:
    harness = Harness(job("j", task("a", 40)), status_delay=0.0)
    harness.api.refuse = refusing("create", "pods", lambda: Forbidden(403, server_message=QUOTA))
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "QuotaExceeded"
    assert harness.pods() == []
    before = harness.api.requests["create", "pods"]
    harness.state.retry.retry_at = 0.0
    await harness.reconcile()
    assert harness.api.requests["create", "pods"] == before + 1
    assert harness.queue.later, "it is tried again later"
    harness.api.refuse = lambda verb, plural, name: None
    harness.state.retry.retry_at = 0.0
    await harness.reconcile()
    assert len(harness.pods()) == 40
    assert harness.stored["state"]["reason"] == "PodsPending"


async def test_an_existing_pod_of_the_job_counts_as_created() -> None:
    harness = Harness(job("j", task("a", 1)))
    lost = False

    def lose(verb: str, plural: str, name: str) -> Any:
        nonlocal lost
        if (verb, plural) == ("create", "pods") and not lost:
            lost = True
            state = harness.state
            assert state.plan is not None
            harness.api.put("pods", state.plan.pod("a", 0))
            return Unreachable("cut off", may_have_applied=True)
        return None

    harness.api.refuse = lose
    with pytest.raises(Unreachable):
        await harness.reconcile()
    await harness.reconcile()
    assert harness.api.requests["create", "pods"] == 1
    assert [key[:2] for key in harness.state.observed.pods] == [("a", 0)]


async def test_a_pod_of_another_owner_with_the_name_is_not_touched() -> None:
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    harness.api.put("pods", {"metadata": {"name": "j-a-0"}})
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "NameConflict"
    assert "pod j-a-0 exists and does not belong to this Job" in harness.stored["state"]["message"]
    assert not harness.state.observed.pods
    assert harness.api.requests["delete", "pods"] == 0


async def test_a_pod_that_lost_its_annotations_is_the_reason_and_no_endless_loop() -> None:
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    put = harness.api.put

    def strip(plural: str, document: dict[str, Any]) -> dict[str, Any]:
        if plural == "pods":
            document = {**document, "metadata": {**document["metadata"], "annotations": {}}}
        return put(plural, document)

    harness.api.put = strip  # type: ignore[method-assign]
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "PodNotRecognised"
    assert harness.api.requests["create", "pods"] == 1


async def test_a_job_that_is_being_deleted_gets_no_requests() -> None:
    harness = Harness(job("j", task("a", 1)))
    harness.change(job("j", task("a", 1)), deletionTimestamp="2026-01-01T00:00:00Z")
    await harness.reconcile()
    assert not harness.api.requests


async def test_a_rejected_job_is_written_once_and_never_run() -> None:
    harness = Harness(job("j", minAvailable=2))
    await harness.reconcile()
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Failed"
    assert "spec.tasks" in harness.stored["state"]["message"]
    assert dict(harness.api.requests) == {("patch", "jobs"): 1}


async def test_a_pod_that_was_deleted_before_it_was_seen_is_replaced() -> None:
    harness = Harness(job("j", task("a", 1, after=None)))
    await harness.reconcile()
    del harness.api.objects["pods", "j-a-0"]
    await harness.reconcile()
    assert harness.pods() == [], "the cache is behind: our own write counts"
    harness.caches.pods.resource_version = harness.api.version
    await harness.reconcile()
    assert harness.pods() == ["j-a-0"]
    attempt = harness.api.objects["pods", "j-a-0"]["metadata"]["labels"]["vcjob.io/attempt"]
    assert attempt == "1"


async def test_a_finished_job_keeps_little_in_memory() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    harness.show("j-a-0", "Succeeded")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Completed"
    assert harness.state.plan is None and harness.state.job is None
    assert harness.api.objects["pods", "j-a-0"], "its pods stay"
    before = harness.api.requests.total()
    harness.show("j-a-0", "Succeeded", message="said again")
    await harness.reconcile()
    assert harness.state.job is None, "nor is it read again for what changes nothing"
    assert harness.api.requests.total() == before


async def test_a_finished_job_that_changes_is_reconciled_again() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    harness.show("j-a-0", "Succeeded")
    await harness.reconcile()
    harness.change(job("j", task("a", 1), ttlSecondsAfterFinished=0))
    await harness.reconcile()
    assert ("jobs", "j") not in harness.api.objects, "its time is over"


async def test_a_job_keeps_the_edition_that_it_was_started_with() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    assert harness.stored["controlledResources"]["vcjob.io/edition"] == str(EDITION)


@pytest.mark.parametrize(("edition", "expected"), [("1", []), ("2", ["0"]), (None, [])])
async def test_a_replaced_pod_is_made_by_the_edition_of_its_job(
    edition: str | None, expected: list[str]
) -> None:
    harness = Harness(job("j", task("master", 1), plugins={"pytorch": []}), status_delay=0.0)
    await harness.reconcile()
    resources = {k: v for k, v in harness.stored["controlledResources"].items() if k != "vcjob.io/edition"}
    if edition is None:
        resources.pop("vcjob.io/gang", None)
    else:
        resources["vcjob.io/edition"] = edition
    found = harness.api.objects["jobs", "j"]
    status = {**found["status"], "controlledResources": resources}
    taken_over = Harness({**found, "status": status}, status_delay=0.0)
    await taken_over.reconcile()
    ((_, pod),) = [(key, obj) for key, obj in taken_over.api.objects.items() if key[0] == "pods"]
    env = pod["spec"]["containers"][0]["env"]
    assert [entry["value"] for entry in env if entry["name"] == "LOCAL_RANK"] == expected


async def test_nothing_is_made_for_a_job_of_an_edition_that_is_not_known() -> None:
    harness = Harness(job("j", task("a", 2)), status_delay=0.0)
    await harness.reconcile()
    resources = {**harness.stored["controlledResources"], "vcjob.io/edition": "999"}
    found = harness.api.objects["jobs", "j"]
    harness.change({**found, "status": {**found["status"], "controlledResources": resources}})
    harness.lose("j-a-0")
    await harness.reconcile()
    assert harness.pods() == ["j-a-1"]
    assert harness.stored["state"]["reason"] == "UnknownEdition"
    harness.show("j-a-1", "Succeeded")
    await harness.reconcile()
    assert harness.stored["succeeded"] == 1, "it is still followed"


async def test_the_events_of_a_slow_starter_are_fetched_and_reported() -> None:
    harness = Harness(job("j", task("a", 2)), status_delay=0.0)
    await harness.reconcile()
    words = 'MountVolume.SetUp failed for volume "data": configmap "data" not found'
    harness.api.put(
        "events", {"metadata": {"name": "e"}, "type": "Warning", "reason": "FailedMount", "message": words}
    )
    for name in harness.pods():
        pod = harness.api.objects["pods", name]
        pod["spec"]["nodeName"] = "n1"
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        harness.show(name, "Pending")
    await harness.reconcile()
    state = harness.stored["state"]
    assert state["reason"] == "Volume"
    assert "and 1 more pods" in state["message"] and words in state["message"]
    for _ in range(3):
        await harness.reconcile()
    assert harness.api.requests["list", "events"] == 1, "not at every look"


async def test_without_the_right_to_list_events_the_job_continues() -> None:
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    await harness.reconcile()
    harness.api.refuse = refusing("list", "events", lambda: Forbidden(403, server_message="no events"))
    pod = harness.api.objects["pods", "j-a-0"]
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    harness.show("j-a-0", "Pending")
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "Starting"


async def test_a_pod_of_a_dead_controller_that_was_deleted_since_is_not_created_twice() -> None:
    """Nobody wrote down that it was there; that it was to be made was written before."""
    harness = Harness(job("j", task("a", 3), policies=[{"event": "PodEvicted", "action": "AbortJob"}]))
    await harness.reconcile()
    assert set(harness.attempts().values()) == {"0"}
    del harness.api.objects["pods", "j-a-1"]
    harness.take_over()
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "0", "j-a-1": "1", "j-a-2": "0"}
    assert harness.stored["state"]["phase"] == "Pending", "nobody can say that it was evicted"


async def test_recovery_at_the_start_survives_a_conflict() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    del harness.api.objects["pods", "j-a-0"]
    harness.take_over()
    found = harness.api.objects["jobs", "j"]
    harness.api.put(
        "jobs", {**found, "status": {**found["status"], "running": 7}}
    )  # somebody wrote in between
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "1"}


async def test_a_pod_that_is_deleted_before_the_next_reconcile_is_not_created_twice() -> None:
    harness = Harness(job("j", task("a", 2)))
    await harness.reconciler.reconcile(KEY)
    assert set(harness.attempts().values()) == {"0"}
    harness.lose("j-a-0")
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "1", "j-a-1": "0"}


async def test_a_pod_that_the_informer_never_showed_is_not_created_twice() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconciler.reconcile(KEY)
    del harness.api.objects["pods", "j-a-0"]
    harness.caches.pods.resource_version = harness.api.version
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "1"}


async def test_a_rank_whose_node_is_gone_is_replaced_and_does_not_fail_the_job() -> None:
    harness = Harness(trio("j", after=None))
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    cleared = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    harness.show("j-worker-0", "Failed", conditions=[cleared])
    await harness.reconcile()
    assert harness.stored["state"]["phase"] != "Failed"
    harness.lose("j-worker-0")
    await harness.reconcile()
    assert harness.attempts() == {"j-master-0": "0", "j-worker-0": "1", "j-worker-1": "0"}


async def test_the_running_pods_of_a_deleted_job_are_deleted_at_once() -> None:
    harness = Harness(job("j", task("a", 3, after=None)))
    await harness.reconcile()
    for name, phase in (("j-a-0", "Running"), ("j-a-1", "Succeeded"), ("j-a-2", "Pending")):
        harness.show(name, phase)
    harness.delete_job()
    await harness.reconcile()
    assert harness.pods() == ["j-a-1"], "what has ended holds nothing: the garbage collector will find it"
    before = harness.api.requests.total()
    await harness.reconcile()
    assert harness.api.requests.total() == before


@pytest.mark.parametrize("seen", [True, False], ids=["the watch has shown it", "the watch is late"])
async def test_a_pod_that_a_deleted_job_orphaned_is_kept(seen: bool) -> None:
    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    orphan = harness.api.objects["pods", "j-a-0"]
    harness.api.put("pods", {**orphan, "metadata": {**orphan["metadata"], "ownerReferences": []}})
    if seen:
        harness.show("j-a-0", "Running")
    harness.delete_job()
    await harness.reconcile()
    assert harness.pods() == ["j-a-0"]


async def test_a_job_that_the_server_briefly_does_not_find_is_not_forgotten() -> None:
    """As while an API server starts: the same Job, unchanged in the next list, is reconciled again."""
    harness = Harness(job("j", task("a", 1)))
    harness.api.refuse = refusing("patch", "jobs", lambda: NotFound(404, server_message="not found"))
    await harness.reconcile()
    assert harness.pods() == []
    harness.api.refuse = lambda verb, plural, name: None
    harness.relist()
    await harness.reconcile()
    assert harness.pods() == ["j-a-0"]


async def test_a_pod_whose_creation_got_no_answer_and_that_does_not_exist_is_not_created_twice() -> None:
    harness = Harness(job("j", task("a", 2)))
    lost = [Unreachable("cut off", may_have_applied=True)]
    harness.api.refuse = lambda verb, plural, name: lost.pop() if name == "j-a-1" and lost else None
    with pytest.raises(Unreachable):
        await harness.reconcile()
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "0", "j-a-1": "1"}
    assert not harness.state.pods.uncertain


async def test_a_warning_of_the_api_server_is_one_event_on_the_job() -> None:
    harness = Harness(job("j", task("a", 3)))
    harness.api.warning = 'unknown field "spec.hots"'
    await harness.reconcile()
    await harness.events.drain()
    events = [found for (plural, _), found in harness.api.objects.items() if plural == "events"]
    assert [(found["reason"], found["message"]) for found in events if found["type"] == "Warning"] == [
        ("PodWarning", 'pods of task a: unknown field "spec.hots"')
    ]


class Starts(Silent):
    """Keeps the times to all pods."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def all_pods(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_the_time_to_all_pods_is_measured_once_and_not_for_replaced_pods() -> None:
    harness = Harness(job("j", task("a", 2, after=None)))
    harness.reconciler._telemetry = starts = Starts()
    await harness.reconcile()
    assert len(starts.seconds) == 1 and starts.seconds[0] < 5
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    harness.lose("j-a-1")
    await harness.reconcile()
    assert len(harness.pods()) == 2 and len(starts.seconds) == 1


async def test_the_age_of_a_job_from_before_a_leader_change_is_not_measured() -> None:
    harness = Harness(job("j", task("a", 1)))
    harness.change(job("j", task("a", 1)), creationTimestamp="2026-01-01T00:00:00Z")
    harness.take_over()
    harness.reconciler._telemetry = starts = Starts()
    await harness.reconcile()
    assert harness.pods() == ["j-a-0"] and starts.seconds == []


@pytest.mark.parametrize("new_leader", [False, True])
@pytest.mark.parametrize("replicas", [2, 2_000_000])
async def test_an_update_that_the_webhook_did_not_reject_has_no_effect(
    replicas: int, new_leader: bool
) -> None:
    """The webhook is off. Another image may not be set, and nobody may ask for two million pods."""
    harness = Harness(job("j", task("a", 2, after=None)), status_delay=0.0)
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    changed = job("j", task("a", replicas, after=None))
    changed["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "another:1"
    harness.change(changed)
    if new_leader:
        harness.take_over()
    harness.lose("j-a-1")
    await harness.reconcile()
    images = {
        doc["spec"]["containers"][0]["image"]
        for (plural, _), doc in harness.api.objects.items()
        if plural == "pods"
    }
    assert images == {"busybox:1.36.1"}
    assert len(harness.pods()) <= 2
    await harness.events.drain()
    found = [doc["reason"] for (plural, _), doc in harness.api.objects.items() if plural == "events"]
    assert "InvalidUpdate" in found
    harness.change(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    assert harness.pods() == ["j-a-0", "j-a-1"], "it continues when the change is undone"


async def test_the_loop_stays_free_while_a_large_job_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return admit_job(*arguments, **options)

    monkeypatch.setattr("vcjob.cluster.controller.preparation.admit_job", slow)
    harness = Harness(job("j", task("a", 1, pod={"hostname": "x"}), plugins={"env": []}))
    monkeypatch.setattr("vcjob.cluster.controller.admission.LARGE_SPEC_BYTES", 1)
    admitting = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    assert not admitting.done(), "and this line runs, so the loop is free"
    harness.change(job("j", task("a", 2)))
    release.set()
    await admitting
    assert harness.pods() == ["j-a-0", "j-a-1"], "the Job as it was changed meanwhile"


async def test_reports_about_pods_wait_while_a_thread_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return decide(*arguments)

    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", slow)
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.LARGE_TASKS", 1)
    deciding = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    harness.show("j-a-0", "Running")
    harness.lose("j-a-1")
    assert {fact.phase for fact in harness.state.observed.pods.values()} == {"Pending"}
    release.set()
    await deciding
    assert {fact.phase for fact in harness.state.observed.pods.values()} != {"Pending"}
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "0", "j-a-1": "1"}


@pytest.mark.parametrize("gone", [False, True])
async def test_a_job_that_changes_while_a_thread_decides_is_decided_again(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return decide(*arguments)

    harness = Harness(job("j", task("a", 1)))
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", slow)
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.LARGE_TASKS", 1)
    deciding = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    if gone:
        harness.delete_job()
    else:
        harness.change(job("j", task("a", 3)))
    release.set()
    await deciding
    assert len(harness.pods()) == (0 if gone else 3)
