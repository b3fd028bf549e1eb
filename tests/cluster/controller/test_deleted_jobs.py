"""Jobs that are deleted or changed at any time, or that the API server does not find: what happens to their pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, Harness, _read, refusing
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.resources import PARTIAL_JOBS
from vcjob.kube.errors import NotFound, Unreachable


async def test_a_job_that_is_being_deleted_gets_no_requests() -> None:
    harness = Harness(job("j", task("a", 1)))
    harness.change(job("j", task("a", 1)), deletionTimestamp="2026-01-01T00:00:00Z")
    await harness.reconcile()
    assert not harness.api.requests


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


@pytest.mark.parametrize("verb", ["patch", "get"], ids=["answered", "read again after a conflict"])
async def test_a_job_deleted_during_a_status_write_gets_no_pods(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch shows the deletion before the answer of the API server, which still knew the Job, is read."""
    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconciler.reconcile(KEY)
    harness.show("j-a-0", "Running")
    harness.lose("j-a-1")
    if verb == "get":  # somebody wrote, and the watch is late
        harness.api.put("jobs", harness.api.objects["jobs", "j"])
    request = getattr(harness.api, verb)
    state = harness.state

    async def answer(resource: Any, *args: Any, **options: Any) -> Any:
        found = await request(resource, *args, **options)
        if resource.plural == "jobs" and ("jobs", "j") in harness.api.objects:
            harness.delete_job()
        return found

    monkeypatch.setattr(harness.api, verb, answer)
    before = harness.api.requests["create", "pods"]
    await harness.reconcile()
    assert ("jobs", "j") not in harness.api.objects
    assert harness.api.requests["create", "pods"] == before
    assert state.resource is None
    assert harness.pods() == [], "the pod that ran is deleted"


async def _with_an_unanswered_creation() -> Harness:
    harness = Harness(job("j", task("a", 2, after=None)), status_delay=0.0)
    lost = [Unreachable("cut off", may_have_applied=True)]
    harness.api.refuse = lambda verb, plural, name: lost.pop() if name == "j-a-1" and lost else None
    with pytest.raises(Unreachable):
        await harness.reconcile()
    return harness


async def _with_a_slow_starter() -> Harness:
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    await harness.reconcile()
    pod = harness.api.objects["pods", "j-a-0"]
    pod["spec"]["nodeName"] = "n1"
    pod["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    harness.show("j-a-0", "Pending")
    return harness


async def _with_a_pod_to_replace() -> Harness:
    policy = {"event": "PodFailed", "action": "RestartPod"}
    tasks = task("a", 2, after=None, policies=[policy])
    harness = Harness(job("j", tasks, maxRetry=5, plugins={"svc": []}), status_delay=0.0)
    await harness.reconcile()
    harness.show("j-a-0", "Running")
    harness.show("j-a-1", "Failed")
    return harness


@pytest.mark.parametrize("change", ["the Job is deleted", "its status is edited"])
@pytest.mark.parametrize(
    ("prepare", "during"),
    [
        (_with_an_unanswered_creation, ("get", "pods")),
        (_with_a_slow_starter, ("list", "events")),
        (_with_a_pod_to_replace, ("delete", "pods")),
        (_with_a_pod_to_replace, ("patch", "jobs")),
    ],
)
async def test_a_job_that_changes_during_a_request_is_reconciled_again_and_that_is_no_error(
    prepare: Callable[[], Awaitable[Harness]], during: tuple[str, str], change: str
) -> None:
    harness = await prepare()
    changed: list[str] = []

    def show_change(verb: str, plural: str, name: str) -> None:
        if (verb, plural) != during or changed:
            return
        changed.append(name)
        if change == "the Job is deleted":
            harness.delete_job()
        else:
            found = harness.api.objects["jobs", "j"]
            edited = harness.api.put("jobs", {**found, "status": {**found.get("status", {}), "running": 77}})
            harness.jobs.job_changed(_read(PARTIAL_JOBS, edited))

    harness.api.refuse = show_change
    created = harness.api.requests["create", "pods"]
    await harness.reconcile()
    assert changed
    if change == "the Job is deleted":
        assert harness.api.requests["create", "pods"] == created
    else:
        assert harness.stored.get("running", 0) != 77, "it is written again"
