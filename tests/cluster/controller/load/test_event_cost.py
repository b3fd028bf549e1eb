"""What a pod event costs, counted and not timed: the same in a Job of a hundred pods and of ten thousand."""

from __future__ import annotations

import gc
import math
import os
import random
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from tests.cluster.controller.harness import KEY, OWNER, Harness
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller import offload
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.resources import PartialGroup, PartialJob, PartialPod, PartialSpecced
from vcjob.plan import names
from vcjob.wellknown.annotations import ATTEMPT

#: `make scale` counts ten thousand too.
SIZES = (100, 1000, 10_000) if int(os.environ.get("VCJOB_SCALE_PODS", "0")) >= 10_000 else (40, 400)
#: A few calls may differ; a cost that grows with the Job would be ten times as high at each size.
SLACK = 1.1


class Work(msgspec.Struct):
    """Sums over the events of one Job's life."""

    events: int = 0
    calls: int = 0
    requests: int = 0

    def per_event(self) -> tuple[float, float]:
        return self.calls / self.events, self.requests / self.events

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count every function that is called, Python's own ones included."""

        def count(_frame: object, event: str, _arg: object) -> None:
            self.calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            yield
        finally:
            sys.setprofile(None)


async def test_the_work_of_a_pod_event_does_not_grow_with_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    calls, requests = zip(*[(await _life(size)).per_event() for size in SIZES], strict=True)
    with capsys.disabled():
        figures = ", ".join(f"{size} pods: {number:.0f}" for size, number in zip(SIZES, calls, strict=True))
        print(f"\n  calls of functions per pod event: {figures}", end="")
    assert max(calls) <= min(calls) * SLACK, calls
    assert max(requests) <= 0.5, requests


async def test_the_life_of_a_small_job_takes_few_calls(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first sight of the Job to Completed, the calls of the fake API server included."""
    # On a busy machine a decision may take so long that the next one is made in a thread, whose calls are not counted.
    monkeypatch.setattr(offload, "SLOW_SECONDS", math.inf)
    await _small_life(Work())  # imports, caches
    work = Work()
    await _small_life(work)
    with capsys.disabled():
        print(f"\n  calls of functions in the life of a Job of one pod: {work.calls}", end="")
    assert work.calls <= 4300


async def _small_life(work: Work) -> None:
    harness = Harness(
        job("j", task("master", 1), plugins={"pytorch": [], "svc": [], "env": []}), status_delay=60.0
    )
    with work.counted():
        await harness.reconcile()
        for phase in ("Pending", "Running", "Succeeded"):
            harness.show("j-master-0", phase)
            await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Completed"


async def _life(size: int) -> Work:
    """Every pod is created, seen, runs and ends, in random order, and the Job is reconciled after each event."""
    harness = Harness(
        job("j", task("a", size), plugins={"svc": []}), status_delay=60.0, creation_chunk=size, gang="none"
    )
    work = Work()
    await harness.reconcile()
    shuffled = random.Random(size)
    for phase in ("Pending", "Running", "Succeeded"):
        names = harness.pods()
        shuffled.shuffle(names)
        for name in names:
            event = harness.next_sight(name, phase)
            before = harness.api.requests.total()
            with work.counted():
                harness.jobs.pod_changed(event)
                await harness.reconciler.reconcile(KEY)
            work.events += 1
            work.requests += harness.api.requests.total() - before
    await harness.reconcile()
    assert harness.stored["state"]["phase"] == "Completed"
    return work


def test_a_known_pod_takes_little_memory(capsys: pytest.CaptureFixture[str]) -> None:
    """All that is kept of it, the informer's copy and the Job's view, after a whole life; on a real process with
    its buffers see test_scale.py."""
    count = 500
    jobs, cache = JobCache(lambda key, seconds: None), {}
    texts = [
        [_as_sent(index, phase) for index in range(count)] for phase in ("Pending", "Running", "Succeeded")
    ]
    decode = msgspec.json.Decoder(PartialPod).decode
    tracemalloc.start()
    try:
        for phase in texts:
            for text in phase:
                seen = decode(text)
                cache[seen.metadata.namespace, seen.metadata.name] = seen
                jobs.pod_changed(seen)
        gc.collect()
        size = tracemalloc.get_traced_memory()[0] / count
    finally:
        tracemalloc.stop()
    with capsys.disabled():
        print(f"\n  {size:.0f} bytes for each pod", end="")
    assert size <= 6000


def _as_sent(index: int, phase: str) -> bytes:
    """As an API server sends it, all that a node says included."""
    at = "2026-01-01T00:00:00Z"
    ran = {"startedAt": at, "finishedAt": at, "exitCode": 0, "reason": "Completed"}
    state = {
        "Pending": {"waiting": {"reason": "ContainerCreating"}},
        "Running": {"running": {"startedAt": at}},
    }
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    marks = {
        names.TASK_SPEC: "worker",
        names.TASK_INDEX: str(index),
        names.JOB_VERSION: "0",
        ATTEMPT: "0",
    }
    document = {
        "metadata": {
            "name": f"j-worker-{index}", "namespace": "n", "uid": f"5e7e8c1c-6ae0-4b43-b1c3-{index:012}",
            "resourceVersion": str(1000 + index), "creationTimestamp": at, "annotations": marks,
            "ownerReferences": [OWNER],
        },
        "spec": {"nodeName": "node-1", "schedulerName": "default-scheduler"},
        "status": {
            "phase": phase, "startTime": at,
            "conditions": [{"type": t, "status": "True", "lastTransitionTime": at} for t in conditions],
            "containerStatuses": [{"name": "main", "state": state.get(phase, {"terminated": ran}), "lastState": {}}],
        },
    }  # fmt: skip
    return msgspec.json.encode(document)


@pytest.mark.parametrize("kind", [PartialJob, PartialSpecced, PartialGroup])
def test_decoded_parts_do_not_keep_the_whole_message_alive(kind: type) -> None:
    fields: dict[str, Any] = {f"f:{number}": {} for number in range(1000)}
    meta = {"name": "j", "managedFields": [fields], "ownerReferences": [OWNER]}
    message = msgspec.json.encode({"metadata": meta, "spec": {"a": 1}, "status": {"phase": "x"}})
    before = sys.getrefcount(message)
    found: Any = msgspec.json.decode(message, type=kind)
    assert sys.getrefcount(message) == before
    assert bytes(found.spec) == b'{"a":1}'


@pytest.mark.parametrize("kind", [PartialSpecced, PartialGroup])
@pytest.mark.parametrize(
    "owners", [[], [{**OWNER, "apiVersion": "batch/v1"}], [{**OWNER, "controller": False}]]
)
def test_the_spec_of_an_object_that_no_job_controls_is_not_kept(
    kind: type, owners: list[dict[str, Any]]
) -> None:
    spec = {"ports": "x" * 500_000}
    message = msgspec.json.encode({"metadata": {"name": "s", "ownerReferences": owners}, "spec": spec})
    before = sys.getrefcount(message)
    found: Any = msgspec.json.decode(message, type=kind)
    assert len(found.spec) < 10
    assert sys.getrefcount(message) == before


async def test_pod_templates_are_dropped_after_creation_and_rendered_again_when_needed() -> None:
    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    assert harness.state.plan is not None and not harness.state.plan.kept_stencils
    harness.caches.pods.resource_version = harness.api.version
    del harness.api.objects["pods", "j-a-1"]
    await harness.reconcile()
    assert harness.pods() == ["j-a-0", "j-a-1"]
