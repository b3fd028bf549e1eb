"""One look at a Job after the other, on a pretended API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, Harness, _read
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.resources import PARTIAL_SERVICES
from vcjob.kube.errors import ApiError, Forbidden, NotFound, Unreachable
from vcjob.plan.edition import EDITION

ATTEMPT = "vcjob.io/attempt"
QUOTA = "exceeded quota: few, requested: pods=1"


def refusing(verb: str, plural: str, error: Callable[[], ApiError | Unreachable]) -> Callable[..., Any]:
    return lambda asked, kind, name: error() if (asked, kind) == (verb, plural) else None


async def test_what_the_watch_shows_before_an_answer_comes_is_not_overwritten_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a scheduler lets a PodGroup in at the very moment it is made: nobody would say so again."""
    stage = Harness(job("j", task("a", 1), plugins={"svc": []}))
    create = stage.api.create

    async def slow_answer(resource: Any, body: Any, namespace: str, **options: Any) -> Any:
        made = await create(resource, body, namespace, **options)
        if resource.plural == "services":
            changed = stage.api.put("services", stage.api.objects["services", "j"])
            stage.board.object_changed("Service", _read(PARTIAL_SERVICES, changed))
        return made

    monkeypatch.setattr(stage.api, "create", slow_answer)
    await stage.look()
    newest = stage.api.objects["services", "j"]["metadata"]["resourceVersion"]
    assert stage.entry.owned["Service", "j"].metadata.resource_version == newest


@pytest.mark.parametrize("job_gone", [False, True])
async def test_a_pod_that_the_server_left_half_deleted_is_deleted_after_a_while(
    monkeypatch: pytest.MonkeyPatch, job_gone: bool
) -> None:
    stage = Harness(trio("j"))
    await stage.look()
    half = stage.api.objects["pods", "j-worker-0"]
    half["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    if job_gone:
        del stage.api.objects["jobs", "j"]
    stage.take_over()
    await stage.look()
    assert ("delete", "pods") not in stage.api.requests
    monkeypatch.setattr("vcjob.cluster.controller.objects.pod_control.HALF_DELETED_SECONDS", -1.0)
    await stage.look()
    assert stage.api.requests["delete", "pods"] == 1
    assert "j-worker-0" not in stage.pods()


async def test_a_refusal_is_the_reason_and_is_tried_again_with_one_pod() -> None:
    stage = Harness(job("j", task("a", 40)), status_delay=0.0)
    stage.api.refuse = refusing("create", "pods", lambda: Forbidden(403, server_message=QUOTA))
    await stage.look()
    assert stage.stored["state"]["reason"] == "QuotaExceeded"
    assert stage.pods() == []
    before = stage.api.requests["create", "pods"]
    stage.entry.retry_at = 0.0
    await stage.look()
    assert stage.api.requests["create", "pods"] == before + 1
    assert stage.wishes.later, "it is tried again later"
    stage.api.refuse = lambda verb, plural, name: None
    stage.entry.retry_at = 0.0
    await stage.look()
    assert len(stage.pods()) == 40
    assert stage.stored["state"]["reason"] == "PodsPending"


async def test_a_pod_that_is_ours_already_is_taken_as_made() -> None:
    stage = Harness(job("j", task("a", 1)))
    lost = False

    def lose(verb: str, plural: str, name: str) -> Any:
        nonlocal lost
        if (verb, plural) == ("create", "pods") and not lost:
            lost = True
            entry = stage.entry
            assert entry.plan is not None
            stage.api.put("pods", entry.plan.pod("a", 0))
            return Unreachable("cut off", maybe_done=True)
        return None

    stage.api.refuse = lose
    with pytest.raises(Unreachable):
        await stage.look()
    await stage.look()
    assert stage.api.requests["create", "pods"] == 1
    assert [key[:2] for key in stage.entry.observed.pods] == [("a", 0)]


async def test_a_foreign_pod_of_the_name_is_left_alone() -> None:
    stage = Harness(job("j", task("a", 1)), status_delay=0.0)
    stage.api.put("pods", {"metadata": {"name": "j-a-0"}})
    await stage.look()
    assert stage.stored["state"]["reason"] == "NameConflict"
    assert "pod j-a-0 exists and does not belong to this Job" in stage.stored["state"]["message"]
    assert not stage.entry.observed.pods
    assert stage.api.requests["delete", "pods"] == 0


async def test_a_pod_that_lost_its_annotations_is_the_reason_and_no_endless_loop() -> None:
    stage = Harness(job("j", task("a", 1)), status_delay=0.0)
    put = stage.api.put

    def strip(plural: str, document: dict[str, Any]) -> dict[str, Any]:
        if plural == "pods":
            document = {**document, "metadata": {**document["metadata"], "annotations": {}}}
        return put(plural, document)

    stage.api.put = strip  # type: ignore[method-assign]
    await stage.look()
    assert stage.stored["state"]["reason"] == "PodNotRecognised"
    assert stage.api.requests["create", "pods"] == 1


async def test_a_deleted_job_is_let_go() -> None:
    stage = Harness(job("j", task("a", 1)))
    stage.change(job("j", task("a", 1)), deletionTimestamp="2026-01-01T00:00:00Z")
    await stage.look()
    assert not stage.api.requests


async def test_a_refused_job_is_written_once_and_never_run() -> None:
    stage = Harness(job("j", minAvailable=2))
    await stage.look()
    await stage.look()
    assert stage.stored["state"]["phase"] == "Failed"
    assert "spec.tasks" in stage.stored["state"]["message"]
    assert dict(stage.api.requests) == {("patch", "jobs"): 1}


async def test_a_pod_made_and_gone_unseen_is_replaced() -> None:
    stage = Harness(job("j", task("a", 1, after=None)))
    await stage.look()
    del stage.api.objects["pods", "j-a-0"]
    await stage.look()
    assert stage.pods() == [], "the cache is behind: our own write counts"
    stage.caches.pods.resource_version = stage.api.version
    await stage.look()
    assert stage.pods() == ["j-a-0"]
    attempt = stage.api.objects["pods", "j-a-0"]["metadata"]["labels"]["vcjob.io/attempt"]
    assert attempt == "1"


async def test_a_finished_job_keeps_little_in_memory() -> None:
    stage = Harness(job("j", task("a", 1)))
    await stage.look()
    stage.show("j-a-0", "Succeeded")
    await stage.look()
    assert stage.stored["state"]["phase"] == "Completed"
    assert stage.entry.plan is None and stage.entry.job is None
    assert stage.api.objects["pods", "j-a-0"], "its pods stay"
    before = stage.api.requests.total()
    stage.show("j-a-0", "Succeeded", message="said again")
    await stage.look()
    assert stage.entry.job is None, "nor is it read again for what changes nothing"
    assert stage.api.requests.total() == before


async def test_a_finished_job_that_changes_is_looked_at_again() -> None:
    stage = Harness(job("j", task("a", 1)))
    await stage.look()
    stage.show("j-a-0", "Succeeded")
    await stage.look()
    stage.change(job("j", task("a", 1), ttlSecondsAfterFinished=0))
    await stage.look()
    assert ("jobs", "j") not in stage.api.objects, "its time is over"


async def test_a_job_keeps_the_edition_that_it_was_started_with() -> None:
    stage = Harness(job("j", task("a", 1)))
    await stage.look()
    assert stage.stored["controlledResources"]["vcjob.io/edition"] == str(EDITION)


async def test_nothing_is_made_for_a_job_of_an_edition_that_is_not_known() -> None:
    stage = Harness(job("j", task("a", 2)), status_delay=0.0)
    await stage.look()
    resources = {**stage.stored["controlledResources"], "vcjob.io/edition": "999"}
    found = stage.api.objects["jobs", "j"]
    stage.change({**found, "status": {**found["status"], "controlledResources": resources}})
    stage.lose("j-a-0")
    await stage.look()
    assert stage.pods() == ["j-a-1"]
    assert stage.stored["state"]["reason"] == "UnknownEdition"
    stage.show("j-a-1", "Succeeded")
    await stage.look()
    assert stage.stored["succeeded"] == 1, "it is still followed"


async def test_the_events_of_a_slow_starter_are_asked_for_and_told_of() -> None:
    stage = Harness(job("j", task("a", 2)), status_delay=0.0)
    await stage.look()
    words = 'MountVolume.SetUp failed for volume "data": configmap "data" not found'
    stage.api.put(
        "events", {"metadata": {"name": "e"}, "type": "Warning", "reason": "FailedMount", "message": words}
    )
    for name in stage.pods():
        pod = stage.api.objects["pods", name]
        pod["spec"]["nodeName"] = "n1"
        pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        stage.show(name, "Pending")
    await stage.look()
    state = stage.stored["state"]
    assert state["reason"] == "Volume"
    assert "and 1 more pods" in state["message"] and words in state["message"]
    for _ in range(3):
        await stage.look()
    assert stage.api.requests["list", "events"] == 1, "not at every look"


async def test_without_the_right_to_see_events_the_job_goes_on() -> None:
    stage = Harness(job("j", task("a", 1)), status_delay=0.0)
    await stage.look()
    stage.api.refuse = refusing("list", "events", lambda: Forbidden(403, server_message="no events"))
    pod = stage.api.objects["pods", "j-a-0"]
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    stage.show("j-a-0", "Pending")
    await stage.look()
    assert stage.stored["state"]["reason"] == "Starting"


async def test_a_pod_made_by_a_controller_that_died_and_gone_since_is_not_made_twice() -> None:
    """Nobody wrote down that it was there; that it was to be made was written before."""
    stage = Harness(job("j", task("a", 3), policies=[{"event": "PodEvicted", "action": "AbortJob"}]))
    await stage.look()
    assert set(stage.attempts().values()) == {"0"}
    del stage.api.objects["pods", "j-a-1"]
    stage.take_over()
    await stage.look()
    assert stage.attempts() == {"j-a-0": "0", "j-a-1": "1", "j-a-2": "0"}
    assert stage.stored["state"]["phase"] == "Pending", "nobody can say that it was evicted"


async def test_what_a_controller_thought_of_at_its_start_survives_a_conflict() -> None:
    stage = Harness(job("j", task("a", 1)))
    await stage.look()
    del stage.api.objects["pods", "j-a-0"]
    stage.take_over()
    found = stage.api.objects["jobs", "j"]
    stage.api.put("jobs", {**found, "status": {**found["status"], "running": 7}})  # somebody wrote in between
    await stage.look()
    assert stage.attempts() == {"j-a-0": "1"}


async def test_a_pod_that_is_gone_before_the_next_look_is_not_made_twice() -> None:
    stage = Harness(job("j", task("a", 2)))
    await stage.reconciler.reconcile(KEY)
    assert set(stage.attempts().values()) == {"0"}
    stage.lose("j-a-0")
    await stage.look()
    assert stage.attempts() == {"j-a-0": "1", "j-a-1": "0"}


async def test_a_pod_that_the_cache_never_showed_is_not_made_twice() -> None:
    stage = Harness(job("j", task("a", 1)))
    await stage.reconciler.reconcile(KEY)
    del stage.api.objects["pods", "j-a-0"]
    stage.caches.pods.resource_version = stage.api.version
    await stage.look()
    assert stage.attempts() == {"j-a-0": "1"}


async def test_a_rank_whose_node_is_gone_is_replaced_and_does_not_fail_the_job() -> None:
    stage = Harness(trio("j", after=None))
    await stage.look()
    for name in stage.pods():
        stage.show(name, "Running")
    await stage.look()
    cleared = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
    stage.show("j-worker-0", "Failed", conditions=[cleared])
    await stage.look()
    assert stage.stored["state"]["phase"] != "Failed"
    stage.lose("j-worker-0")
    await stage.look()
    assert stage.attempts() == {"j-master-0": "0", "j-worker-0": "1", "j-worker-1": "0"}


async def test_the_running_pods_of_a_deleted_job_are_told_at_once() -> None:
    stage = Harness(job("j", task("a", 3, after=None)))
    await stage.look()
    for name, phase in (("j-a-0", "Running"), ("j-a-1", "Succeeded"), ("j-a-2", "Pending")):
        stage.show(name, phase)
    stage.delete_job()
    await stage.look()
    assert stage.pods() == ["j-a-1"], "what has ended holds nothing: the garbage collector will find it"
    before = stage.api.requests.total()
    await stage.look()
    assert stage.api.requests.total() == before


@pytest.mark.parametrize("seen", [True, False], ids=["the watch has shown it", "the watch is late"])
async def test_a_pod_that_a_deleted_job_left_behind_lives_on(seen: bool) -> None:
    stage = Harness(job("j", task("a", 2, after=None)))
    await stage.look()
    for name in stage.pods():
        stage.show(name, "Running")
    orphan = stage.api.objects["pods", "j-a-0"]
    stage.api.put("pods", {**orphan, "metadata": {**orphan["metadata"], "ownerReferences": []}})
    if seen:
        stage.show("j-a-0", "Running")
    stage.delete_job()
    await stage.look()
    assert stage.pods() == ["j-a-0"]


async def test_a_job_that_the_server_denies_for_a_moment_is_not_forgotten() -> None:
    """As while an API server comes up: the same Job in the next list, unchanged, is looked at again."""
    stage = Harness(job("j", task("a", 1)))
    stage.api.refuse = refusing("patch", "jobs", lambda: NotFound(404, server_message="not found"))
    await stage.look()
    assert stage.pods() == []
    stage.api.refuse = lambda verb, plural, name: None
    stage.relist()
    await stage.look()
    assert stage.pods() == ["j-a-0"]


async def test_a_pod_whose_making_was_not_heard_of_and_that_is_not_there_is_not_made_twice() -> None:
    stage = Harness(job("j", task("a", 2)))
    lost = [Unreachable("cut off", maybe_done=True)]
    stage.api.refuse = lambda verb, plural, name: lost.pop() if name == "j-a-1" and lost else None
    with pytest.raises(Unreachable):
        await stage.look()
    await stage.look()
    assert stage.attempts() == {"j-a-0": "0", "j-a-1": "1"}
    assert not stage.entry.doubtful


async def test_what_the_api_server_warns_of_is_told_on_the_job_once() -> None:
    stage = Harness(job("j", task("a", 3)))
    stage.api.warning = 'unknown field "spec.hots"'
    await stage.look()
    await stage.events.drain()
    told = [found for (plural, _), found in stage.api.objects.items() if plural == "events"]
    assert [(found["reason"], found["message"]) for found in told if found["type"] == "Warning"] == [
        ("PodWarning", 'pods of task a: unknown field "spec.hots"')
    ]
