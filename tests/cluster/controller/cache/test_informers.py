"""What the controller's watches report to what it knows of Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cluster.controller.pods import OWNER
from tests.kube.fake_api import KINDS, FakeApi, served
from vcjob.cluster.controller.cache.informers import Caches, wait_synced
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.kube.api.client import Client
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig

NOW = "2026-01-01T00:00:00Z"


@asynccontextmanager
async def leader(api: FakeApi) -> AsyncIterator[JobCache]:
    """A new leader that knows the Jobs, Commands and pods."""
    api.served = {
        "batch.volcano.sh/v1alpha1": [served("jobs", "Job")],
        "bus.volcano.sh/v1alpha1": [served("commands", "Command")],
    }
    jobs = JobCache(lambda _key, _seconds: None)
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        caches = Caches(client, None)
        await caches.connect(jobs)
        watched = [each for each in caches.informers if each.resource.plural in ("jobs", "commands", "pods")]
        running = [asyncio.create_task(each.run()) for each in watched]
        await wait_synced(watched)
        yield jobs
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def job_with_command(api: FakeApi, **metadata: Any) -> tuple[str, str]:
    made = await api.put("jobs", "train", spec={"tasks": []})
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"}
    command = await api.put("commands", "again", metadata=metadata, target=target, action="RestartJob")
    return made["metadata"]["uid"], command["metadata"]["uid"]


def commands(jobs: JobCache, uid: str) -> list[str]:
    state = jobs.get(("default", uid))
    assert state is not None
    state.commands.refresh()
    return list(state.observed.commands)


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "commands", "Command")


async def test_a_command_that_a_finalizer_keeps_is_not_executed_by_the_next_leader() -> None:
    """Its uid may have left those that the status remembers."""
    async with FakeApi() as api:
        uid, _ = await job_with_command(api, deletionTimestamp=NOW, finalizers=["example.io/keep"])
        async with leader(api) as jobs:
            assert commands(jobs, uid) == []
            assert jobs.unmatched.older_than(0) == [], "it is not to be deleted again and again"


async def test_a_command_is_forgotten_when_its_deletion_begins() -> None:
    async with FakeApi() as api:
        uid, command = await job_with_command(api, finalizers=["example.io/keep"])
        async with leader(api) as jobs:
            assert commands(jobs, uid) == [command]
            await api.put("commands", "again", metadata={"deletionTimestamp": NOW})
            async with asyncio.timeout(10):
                while commands(jobs, uid):
                    await asyncio.sleep(0.01)


@pytest.mark.parametrize("job_exists", [True, False])
async def test_a_pod_that_its_job_does_not_control_any_more_is_gone(job_exists: bool) -> None:
    """As after `kubectl delete --cascade=orphan`: what is known of a deleted Job would stay as long as the controller runs."""
    async with FakeApi() as api:
        uid = (await api.put("jobs", "j", spec={"tasks": []}))["metadata"]["uid"] if job_exists else "deleted"
        owner = {**OWNER, "uid": uid}
        marks = {"volcano.sh/task-spec": "a", "volcano.sh/task-index": "0"}
        labels = {"volcano.sh/job-name": "j"}
        metadata = {"labels": labels, "annotations": marks, "ownerReferences": [owner]}
        await api.put("pods", "j-a-0", metadata=metadata, status={"phase": "Succeeded"})
        async with leader(api) as jobs:
            state = jobs.get(("default", uid))
            assert state is not None and state.observed.pods
            other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "x", "controller": False}
            await api.put("pods", "j-a-0", metadata={"ownerReferences": [owner, other]})
            await api.put("pods", "j-a-0", metadata={"ownerReferences": [other]})
            async with asyncio.timeout(10):
                while state.observed.pods and not state.pods.departed:
                    await asyncio.sleep(0.01)
            assert (jobs.get(("default", uid)) is not None) is job_exists
