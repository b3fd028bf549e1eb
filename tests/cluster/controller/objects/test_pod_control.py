"""Pods that are created, replaced and deleted once each, whatever the API server answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, Harness, refusing
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.controller.objects import concurrent_requests
from vcjob.kube.errors import Forbidden, Unreachable

QUOTA = "exceeded quota: few, requested: pods=1"


async def all_running(document: Any) -> Harness:
    """A Job whose pods have all been seen to run."""
    harness = Harness(document, status_delay=0.0)
    await harness.reconcile()
    for name in harness.pods():
        harness.show(name, "Running")
    await harness.reconcile()
    return harness


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


async def test_a_pod_that_lost_its_annotations_is_the_reason_and_no_endless_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server loses the annotations."""
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    put = harness.api.put

    def strip(plural: str, document: dict[str, Any]) -> dict[str, Any]:
        if plural == "pods":
            document = {**document, "metadata": {**document["metadata"], "annotations": {}}}
        return put(plural, document)

    monkeypatch.setattr(harness.api, "put", strip)
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "PodNotRecognised"
    assert harness.api.requests["create", "pods"] == 1


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


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    chunk = 10
    monkeypatch.setattr(concurrent_requests, "CHUNK", chunk)
    return chunk


async def test_pods_are_killed_some_at_a_time_so_that_other_jobs_get_the_worker(small_chunks: int) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    harness = await all_running(job("j", task("a", 35), policies=policies))
    harness.show("j-a-0", "Failed")
    for number in range(1, 4):
        harness.queue.soon = False
        await harness.reconciler.reconcile(KEY)
        assert harness.api.requests["delete", "pods"] == number * small_chunks
        assert harness.queue.soon, "the rest follows"
    await harness.reconcile()
    assert harness.pods() == []


async def test_the_pods_of_a_deleted_job_are_deleted_some_at_a_time(small_chunks: int) -> None:
    harness = await all_running(job("j", task("a", 35)))
    harness.delete_job()
    await harness.reconciler.reconcile(KEY)
    assert harness.api.requests["delete", "pods"] == small_chunks
    await harness.reconcile()
    assert (harness.api.requests["delete", "pods"], harness.pods()) == (35, [])


async def test_a_failed_deletion_of_a_deleted_jobs_pods_is_not_the_last(small_chunks: int) -> None:
    harness = await all_running(job("j", task("a", 35)))
    harness.delete_job()
    harness.api.refuse = refusing("delete", "pods", lambda: Unreachable("gone"))
    with pytest.raises(Unreachable):
        await harness.reconciler.reconcile(KEY)
    assert harness.state.pods.to_delete is None, "they are listed again when objects of the Job are left"
