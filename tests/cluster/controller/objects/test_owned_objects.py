"""The objects that a Job owns in addition to its pods: how their requests end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.cluster.controller.harness import KEY, Harness, refusing
from tests.cluster.controller.jobs import job, task
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
