"""Jobs that come and go leave nothing in the controller's memory (`make soak` shows the same on a real cluster)."""

from __future__ import annotations

import gc
from typing import cast

import pytest

from tests.cluster.controller.harness import NAMESPACE, Harness, _read
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.resources import PARTIAL_JOBS, PARTIAL_PODS, PartialJob

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
