"""Thousands of pods on fake nodes, in one Job and in many: all made, all ended, at little memory for each.

`make test` takes a few hundred pods, `make scale` ten thousand. Only thousands tell what one costs: the memory that an
allocator keeps for a burst is the same for few and for many.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.cluster.controller.controller_part import peak_memory, start_controller
from tests.cluster.controller.jobs import Object, job, task
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part
from vcjob.cluster.install.objects.crds import definitions

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(1800)]

PODS = int(os.environ.get("VCJOB_SCALE_PODS", "500"))
PODS_OF_A_SMALL_JOB = 5
#: For each pod, over what the controller takes after a burst of a few hundred pods that are gone again.
BYTES_PER_POD = 10_000
ENOUGH_TO_TELL = 5_000
WARM_UP = 300
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def harness(fresh_cluster: Callable[..., Cluster]) -> Iterator[tuple[Cluster, Part]]:
    cluster = fresh_cluster(audit=False)
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in definitions():
        cluster.api.create(path, definition)
    cluster.fakes(max(10, PODS // 500), pods=1000)
    controller = start_controller(cluster, "scale:vcjob", "--gang=none")
    yield cluster, controller
    controller.stop()


def one_job() -> list[Object]:
    return [job("large", task("worker", PODS, after="5s"), plugins={"svc": [], "env": []})]


def many_jobs() -> list[Object]:
    count = PODS // PODS_OF_A_SMALL_JOB
    small = task("worker", PODS_OF_A_SMALL_JOB, after="5s")
    return [job(f"small-{number}", small, plugins={"svc": [], "env": []}) for number in range(count)]


@pytest.mark.parametrize("shape", [one_job, many_jobs])
def test_thousands_of_pods_are_made_and_end_at_little_memory_each(
    harness: tuple[Cluster, Part], shape: Callable[[], list[Object]], capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, controller = harness
    baseline = warmed_up(cluster, controller)
    jobs = shape()
    began, cpu = time.monotonic(), controller.cpu_seconds()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda document: cluster.api.create(JOBS, document), jobs))
    until(lambda: pods(cluster) == PODS, 900)
    made = time.monotonic() - began
    until(lambda: completed(cluster) == len(jobs), 900)
    ended, resident, peak = time.monotonic() - began, controller.memory(), peak_memory(controller)
    with capsys.disabled():
        print(
            f"\n  {PODS} pods in {len(jobs)} Jobs: made in {made:.0f} s, ended in {ended:.0f} s; controller "
            f"{controller.cpu_seconds() - cpu:.1f} s of CPU; {baseline / 2**20:.0f} MiB at rest, then "
            f"{(resident - baseline) / PODS:.0f} bytes per pod, {(peak - baseline) / PODS:.0f} at the peak",
            end="",
        )
    assert pods(cluster) == pods(cluster, "Succeeded") == PODS
    if PODS >= ENOUGH_TO_TELL:
        assert peak - baseline <= BYTES_PER_POD * PODS


def warmed_up(cluster: Cluster, controller: Part) -> int:
    """Its memory at rest, once it has done everything before: connections made, modules loaded."""
    cluster.api.create(JOBS, job("first", task("worker", WARM_UP, after="1s"), plugins={"svc": []}))
    until(lambda: completed(cluster) == 1, 120)
    cluster.api.delete(f"{JOBS}/first")
    until(lambda: pods(cluster) == 0, 120)
    return controller.memory()


def pods(cluster: Cluster, phase: str = "") -> int:
    """Counted by the server where it can: a list of ten thousand is long."""
    if phase:
        return len(cluster.api.list(f"{PODS_PATH}?fieldSelector=status.phase%3D{phase}"))
    page: dict[str, Any] = cluster.api.get(f"{PODS_PATH}?limit=1")
    left = page["metadata"].get("remainingItemCount", 0)
    if page["metadata"].get("continue") and not left:
        return len(cluster.api.list(PODS_PATH))
    return len(page["items"]) + int(left)


def completed(cluster: Cluster) -> int:
    if cluster.api.list(f"{PODS_PATH}?limit=1&fieldSelector=status.phase%21%3DSucceeded"):
        return 0  # not worth a long list yet
    phases = [(item.get("status") or {}).get("state", {}).get("phase") for item in cluster.api.list(JOBS)]
    return phases.count("Completed")


def until(holds: Callable[[], bool], seconds: float) -> None:
    limit = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < limit, "not in time"
        time.sleep(0.5)
