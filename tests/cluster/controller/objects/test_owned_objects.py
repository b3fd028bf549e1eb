"""The objects that a Job owns in addition to its pods: how their requests end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, OWNER, Harness, _read, refusing
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.resources import PARTIAL_GROUPS
from vcjob.kube.errors import ServerError


async def test_no_request_for_an_object_is_left_running_after_another_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A creation that is answered later could leave a PodGroup behind that a Job which has ended just deleted."""
    harness = Harness(job("j", task("a", 1), plugins={"svc": []}))
    harness.api.refuse = refusing("create", "services", lambda: ServerError(500))
    create, may_answer, asked = harness.api.create, asyncio.Event(), asyncio.Event()

    async def slow(resource: Any, *args: Any, **options: Any) -> Any:
        if resource.plural == "networkpolicies":
            asked.set()
            await may_answer.wait()
        return await create(resource, *args, **options)

    monkeypatch.setattr(harness.api, "create", slow)
    reconcile = asyncio.create_task(harness.reconciler.reconcile(KEY))
    await asyncio.wait_for(asked.wait(), 30)
    for _ in range(10):  # turns of the loop, in which the other requests end
        await asyncio.sleep(0)
    assert not reconcile.done()
    may_answer.set()
    with pytest.raises(ServerError):
        await reconcile
    assert ("NetworkPolicy", "j") in harness.state.objects.owned
    assert harness.pods() == []


async def test_many_groups_that_name_the_job_as_their_owner_are_deleted_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 1)), status_delay=0.0)
    await harness.reconcile()
    for number in range(20):
        meta = {"name": f"g{number}", "ownerReferences": [OWNER]}
        group = harness.api.put("podgroups", {"metadata": meta, "spec": {}})
        harness.jobs.object_changed("PodGroup", _read(PARTIAL_GROUPS, group))
    delete, may_answer = harness.api.delete, asyncio.Event()
    asked: list[str] = []

    async def slow(resource: Any, name: str, *args: Any, **options: Any) -> Any:
        asked.append(name)
        if len(asked) == 20:
            may_answer.set()
        await asyncio.wait_for(may_answer.wait(), 30)
        return await delete(resource, name, *args, **options)

    monkeypatch.setattr(harness.api, "delete", slow)
    harness.show("j-a-0", "Succeeded")
    await harness.reconcile()
    assert len(asked) == 20 and harness.state.objects.group is None
