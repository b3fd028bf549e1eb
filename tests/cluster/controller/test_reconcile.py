"""Reconciles of one Job against a fake API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.cluster.controller.harness import KEY, NAMESPACE, OWNER, Harness, _read, refusing
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import PARTIAL_JOBS, PARTIAL_PODS, PARTIAL_SERVICES, PartialCommand
from vcjob.kube.errors import Forbidden
from vcjob.lifecycle.decision_context import HISTORY_KEPT
from vcjob.lifecycle.status import Status
from vcjob.wellknown.annotations import LIFECYCLE


async def running_job() -> Harness:
    """A Job of one pod, which runs."""
    harness = Harness(job("j", task("a", 1, after=None)), status_delay=0.0)
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    await harness.reconcile()
    return harness


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


def _show_before_the_answer(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, first: Callable[[str], None] = lambda plural: None
) -> None:
    """Let the watch show everything, after `first(plural)`, before a create or a patch returns."""
    for verb in ("create", "patch"):
        request = getattr(harness.api, verb)

        async def answer(
            resource: Any, *args: Any, request: Callable[..., Any] = request, **options: Any
        ) -> Any:
            made = await request(resource, *args, **options)
            first(resource.plural)
            harness.relist()
            return made

        monkeypatch.setattr(harness.api, verb, answer)


async def test_own_writes_that_the_watch_shows_before_their_answers_cause_no_reconcile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 2, after=None), plugins={"svc": []}))
    _show_before_the_answer(harness, monkeypatch)
    harness.queue.soon = False
    await harness.reconciler.reconcile(KEY)
    assert harness.pods() == ["j-a-0", "j-a-1"]
    assert not harness.queue.soon
    for name in harness.pods():
        harness.show(name, "Running")
    harness.queue.soon = False
    await harness.reconciler.reconcile(KEY)
    assert harness.stored["state"]["phase"] == "Running"
    assert not harness.queue.soon


async def test_a_change_of_an_object_before_the_answer_to_its_creation_is_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 1), plugins={"svc": []}))

    def change(plural: str) -> None:
        if plural == "services" and not changed:
            made = harness.api.objects["services", "j"]
            changed.append(harness.api.put("services", {**made, "spec": {"selector": {"other": "pods"}}}))

    changed: list[Any] = []
    _show_before_the_answer(harness, monkeypatch, change)
    await harness.reconcile()
    assert changed
    assert "other" not in harness.api.objects["services", "j"]["spec"]["selector"]


async def test_a_change_of_the_job_before_the_answer_to_a_status_write_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 1, after=None), plugins={}))
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    suspended: list[str] = []

    def suspend(plural: str) -> None:
        if plural == "jobs" and not suspended:
            suspended.append("once")
            harness.change(job("j", task("a", 1, after=None), plugins={}, suspend=True))

    _show_before_the_answer(harness, monkeypatch, suspend)
    await harness.reconcile()
    assert suspended
    assert harness.stored["state"]["phase"] == "Aborting"


async def test_a_rejected_job_is_written_once_and_never_run() -> None:
    harness = Harness(job("j", minAvailable=2))
    await harness.reconcile()
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Failed"
    assert "spec.tasks" in harness.stored["state"]["message"]
    assert dict(harness.api.requests) == {("patch", "jobs"): 1}


DEEP = '{"x":' + "[" * 700_000 + "]" * 700_000 + "}"  # as deep as an object in etcd can be


@pytest.mark.parametrize(
    ("status", "unreadable"),
    [
        ({"controlledResources": {LIFECYCLE: DEEP}}, True),
        ({"controlledResources": {LIFECYCLE: "[]"}}, True),
        (msgspec.Raw(f'{{"state":{{"phase":"Running"}},"x":{DEEP}}}'.encode()), False),
    ],
    ids=["our part, deeply nested", "our part, of another type", "another field, deeply nested"],
)
async def test_whatever_somebody_writes_into_the_status_the_job_is_reconciled(
    status: Any, unreadable: bool
) -> None:
    harness = await running_job()
    edited = _read(PARTIAL_JOBS, harness.api.put("jobs", harness.api.objects["jobs", "j"]))
    edited.status = msgspec.Raw(msgspec.json.encode(status))
    harness.jobs.job_changed(edited)
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Running"
    await harness.events.drain()
    reported = [doc["reason"] for (plural, _), doc in harness.api.objects.items() if plural == "events"]
    assert ("StatusUnreadable" in reported) is unreadable
    assert harness.pods() == ["j-a-0"]


@pytest.mark.parametrize("damage", ["{", '{"since":1e300}', '{"tasks":3}'])
@pytest.mark.parametrize(("pod", "ended"), [("Succeeded", "Completed"), ("Failed", "Failed")])
async def test_a_job_that_has_ended_does_not_run_again_because_its_status_is_damaged(
    pod: str, ended: str, damage: str
) -> None:
    harness = Harness(job("j", task("a", 1, after=None), plugins={}), status_delay=0.0)
    await harness.reconcile()
    harness.show("j-a-0", pod)
    await harness.reconcile()
    harness.lose("j-a-0")
    harness.stored["controlledResources"][LIFECYCLE] = damage
    harness.take_over()
    await harness.reconcile()
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == ended
    assert harness.api.requests["create", "pods"] == 1


@pytest.mark.parametrize("attempt", [2**31 - 1, 2**31])
async def test_a_pod_is_created_once_whatever_attempt_somebody_wrote_into_the_status(attempt: int) -> None:
    harness = Harness(job("j", task("a", 1, after=None)), status_delay=0.0)
    await harness.reconcile()
    own = json.loads(harness.stored["controlledResources"][LIFECYCLE])
    own["tasks"]["a"]["attempts"] = {str(attempt): "0"}
    harness.stored["controlledResources"][LIFECYCLE] = json.dumps(own)
    harness.lose("j-a-0")
    harness.take_over()
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    await harness.reconcile()
    assert harness.pods() == ["j-a-0"]
    assert harness.api.requests["create", "pods"] == 2


async def test_a_large_status_that_is_edited_while_it_is_read_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 1, after=None)), status_delay=0.0)
    await harness.reconcile()
    harness.take_over()
    read, edits = Status.from_kube, iter(["edited once"])

    def read_slowly(document: Any) -> Status:
        for edit in edits:  # as the watch shows it while a thread reads the status
            found = harness.api.objects["jobs", "j"]
            state = {**found["status"]["state"], "message": edit, "phase": "Aborted"}
            changed = harness.api.put("jobs", {**found, "status": {**found["status"], "state": state}})
            harness.jobs.job_changed(_read(PARTIAL_JOBS, changed))
        return read(document)

    monkeypatch.setattr(Status, "from_kube", read_slowly)
    await harness.reconcile()
    assert harness.state.status is not None and harness.state.status.phase == "Aborted"
    assert harness.stored["state"]["phase"] == "Aborted"


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
    assert "(and 1 more pod)" in state["message"] and words in state["message"]
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


async def test_restarts_are_counted_for_as_long_as_the_job_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(
        job("j", task("a", 1, policies=[{"event": "PodFailed", "action": "RestartPod"}]), maxRetry=99),
        status_delay=0.0,
    )
    restarts: list[str] = []
    monkeypatch.setattr(harness.reconciler._telemetry, "restarted", restarts.append)
    for _ in range(HISTORY_KEPT + 5):
        await harness.reconcile()
        failed = harness.next_sight("j-a-0", "Failed")
        harness.jobs.pod_changed(failed)
        await harness.reconcile()
        if ("pods", "j-a-0") in harness.api.objects:
            del harness.api.objects["pods", "j-a-0"]
        harness.jobs.pod_gone(failed)
    assert len(restarts) == HISTORY_KEPT + 5


@pytest.mark.parametrize(("task_name", "index"), [("a", "0"), ("a", "7"), ("another", "0")])
async def test_a_copy_that_a_user_made_of_a_pod_does_not_keep_the_job_from_ending(
    task_name: str, index: str
) -> None:
    """As `kubectl get pod j-a-0 -o yaml`, with another name, and `kubectl create`: annotations and owner are the same."""
    harness = await running_job()
    marks = {"volcano.sh/task-spec": task_name, "volcano.sh/task-index": index}
    meta = {"name": "copy", "annotations": marks, "ownerReferences": [OWNER]}
    copy = harness.api.put("pods", {"metadata": meta, "status": {"phase": "Running"}})
    harness.jobs.pod_changed(_read(PARTIAL_PODS, copy))
    await harness.reconcile()
    target = {"metadata": {"name": "c", "namespace": NAMESPACE, "uid": "c"}, "action": "TerminateJob"}
    command = harness.api.put("commands", {**target, "target": {"kind": "Job", "name": "j"}})
    harness.jobs.command_added(msgspec.convert(command, PartialCommand))
    last = harness.next_sight("j-a-0", "Running")
    await harness.reconcile()
    harness.jobs.pod_gone(last)
    await harness.reconcile()
    assert harness.pods() == ["copy"]
    assert harness.stored["state"]["phase"] == "Terminated"


@pytest.mark.parametrize("index", ["2000000000", "5", "", "²"])
async def test_a_pod_is_followed_to_its_end_although_somebody_edited_its_index(index: str) -> None:
    harness = await running_job()
    harness.api.objects["pods", "j-a-0"]["metadata"]["annotations"]["volcano.sh/task-index"] = index
    harness.show("j-a-0", "Succeeded")
    harness.lose("j-a-0")
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Completed"
