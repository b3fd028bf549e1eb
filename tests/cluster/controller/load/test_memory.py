"""Jobs that come and go leave nothing in the controller's memory (`make soak` shows the same on a real cluster)."""

from __future__ import annotations

import asyncio
import gc
from typing import cast

import pytest

from tests.cluster.controller.harness import NAMESPACE, Harness, _read
from tests.cluster.controller.jobs import job, task
from tests.cluster.controller.load.hostile_clients import LargeConfigMaps
from vcjob.cluster.controller.cache.informers import Caches, wait_synced
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.resources import (
    PARTIAL_CONFIG_MAPS,
    PARTIAL_GROUPS,
    PARTIAL_JOBS,
    PARTIAL_PODS,
    PARTIAL_PRIORITIES,
    PARTIAL_SERVICES,
    PartialJob,
)

WARM_UP, ROUNDS = 10, 30


async def run_job(harness: Harness, number: int, *, fails: bool) -> None:
    """A Job from its creation to the deletion of it and its pod."""
    name, uid = f"j{number}", f"uid-of-job-{number}"
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    harness.change(
        job(name, task("a", 1), policies=policies, maxRetry=1, activeDeadlineSeconds=86_400), uid=uid
    )
    for phase in ("", "Running", "Failed" if fails else "Succeeded"):
        for pod in harness.pods() if phase else ():
            harness.show(pod, phase)
        for _ in range(4):
            await harness.reconciler.reconcile((NAMESPACE, uid))
    state = harness.jobs.get((NAMESPACE, uid))
    assert state is not None and state.status is not None
    assert str(state.status.phase) == ("Failed" if fails else "Completed")
    harness.jobs.job_gone(cast(PartialJob, _read(PARTIAL_JOBS, harness.api.objects.pop(("jobs", name)))))
    for pod in harness.pods():
        harness.caches.pods.known.pop(pod)
        harness.jobs.pod_gone(_read(PARTIAL_PODS, harness.api.objects.pop(("pods", pod))))
    while not harness.events._queue.empty():
        harness.events._queue.get_nowait()


async def test_what_tenants_can_create_is_listed_in_pages_of_a_hundred() -> None:
    """A page of objects as large as they may be has to fit into memory."""
    server = LargeConfigMaps(101)
    caches, jobs = Caches(server.client(), None), JobCache(lambda *_: None)
    for resource in (PARTIAL_CONFIG_MAPS, PARTIAL_SERVICES, PARTIAL_GROUPS):
        caches._follow_owned(jobs, resource)
    parts = Schedulers(server.client(), ControllerOptions())._parts
    informers = [found for found in caches.informers if found.resource is not PARTIAL_PRIORITIES]
    running = [asyncio.create_task(informer.run()) for informer in (*informers, parts)]
    await wait_synced([*informers, parts])
    for one in running:
        one.cancel()
    assert server.limits == {100}
    assert {len(list(informer)) for informer in informers} == {101}


@pytest.mark.parametrize("fails", [False, True], ids=["completes", "fails"])
async def test_jobs_that_come_and_go_leave_nothing(fails: bool) -> None:
    harness = Harness(job("other", task("a", 1)))
    harness.delete_job()
    for number in range(WARM_UP):
        await run_job(harness, number, fails=fails)
    gc.collect()
    before = len(gc.get_objects())
    for number in range(WARM_UP, WARM_UP + ROUNDS):
        await run_job(harness, number, fails=fails)
    gc.collect()
    assert len(gc.get_objects()) - before < ROUNDS // 2, "less than an object for every second Job"
    assert len(harness.jobs) == 0
