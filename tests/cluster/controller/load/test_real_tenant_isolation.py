"""Hostile Jobs and an ordinary one of another tenant on a real API server."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.cluster.controller.conftest import ControllerCluster, establish
from tests.cluster.controller.jobs import job, task
from tests.cluster.controller.load.hostile_cluster import HOSTILE
from tests.testbed.api import ApiError
from tests.testbed.cluster import Cluster as RealCluster


class Pair(NamedTuple):
    """Seconds to the pods of two Jobs that were created at the same moment, and how slow the machine was then."""

    shared: float
    alone: float
    slowdown: float

    @property
    def delay(self) -> float:
        """By how much the first took longer, in seconds of a machine that has nothing else to do."""
        return (self.shared - self.alone) / self.slowdown


def _imitate_volcano(testbed: ControllerCluster) -> str:
    """A ready pod with the label of Volcano's controller manager, in a namespace that a tenant has created."""
    if testbed.api.find("/api/v1/namespaces/volcano-system") is None:
        testbed.api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    core = "/api/v1/namespaces/volcano-system"
    testbed.api.wait(f"{core}/serviceaccounts/default", lambda seen: seen is not None, what="created")
    pod = {
        "metadata": {"name": "imitation", "labels": {"app": "volcano-controller"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }
    testbed.api.create(f"{core}/pods", pod)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    testbed.api.patch(f"{core}/pods/imitation/status", ready)
    return f"{core}/pods/imitation"


def _seconds_to_pod(testbed: ControllerCluster, name: str) -> float:
    """The time from the creation of an ordinary Job to that of its pod."""
    began = time.monotonic()
    testbed.create(job(name, task("a", 1, after=None)))
    testbed.api.wait(f"{testbed.core}/pods/{name}-a-0", lambda seen: seen is not None, what="created")
    return time.monotonic() - began


def _slowdown() -> float:
    """How much longer work takes than the CPU time that it needs: other tests share the machine."""
    began, used = time.monotonic(), time.thread_time()
    while time.thread_time() < used + 0.05:
        pass
    return max(1.0, (time.monotonic() - began) / 0.05)


def _compare(first: ControllerCluster, second: ControllerCluster, prefix: str, count: int) -> list[Pair]:
    """One Job in each namespace, again and again: everything else that keeps the machine and the API server busy delays
    both."""
    found: list[Pair] = []
    with ThreadPoolExecutor(2) as pool:
        for number in range(count):
            one, other = pool.map(_seconds_to_pod, (first, second), (f"{prefix}{number}",) * 2)
            found.append(Pair(one, other, _slowdown()))
    return found


@pytest.fixture
def testbed(fresh_cluster: Callable[..., RealCluster]) -> ControllerCluster:
    """A cluster of its own: what these Jobs leave behind keeps an API server busy for a minute."""
    cluster = fresh_cluster()
    establish(cluster)
    cluster.fakes(1)
    return _namespace(cluster, "tenant")


def _namespace(cluster: RealCluster, name: str) -> ControllerCluster:
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    cluster.api.wait(account, lambda seen: seen is not None, what="made by the controller manager")
    return ControllerCluster(cluster, name)


def _create_hostile(testbed: ControllerCluster, running: str) -> None:
    for name, document in HOSTILE.items():
        try:
            testbed.create({**document, "metadata": {"name": name}})
        except ApiError:
            continue  # the schema rejects it
    for number in range(200):
        testbed.command("commands", "ResumeJob" if number % 2 else "AbortJob")
    marks = {"metadata": {"annotations": {"volcano.sh/task-index": "2000000000"}}}
    testbed.api.patch(f"{testbed.core}/pods/{running}-a-0", marks)
    for number in range(20):
        large = {"metadata": {"name": f"large{number}"}, "data": {"x": "y" * 900_000}}
        testbed.api.create(f"{testbed.core}/configmaps", large)


@pytest.mark.cluster
@pytest.mark.timeout(900)  # the API server needs a minute for these Jobs on an idle machine
def test_on_a_real_api_server_hostile_jobs_delay_no_other_job_by_a_second(
    testbed: ControllerCluster,
    spawn: Callable[..., object],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two controllers, each a process of its own: one serves the namespace of the hostile Jobs, one a quiet namespace."""
    quiet = _namespace(testbed.cluster, "quiet")
    imitation = _imitate_volcano(testbed)
    spawn()
    spawn(quiet.namespace)
    _compare(testbed, quiet, "before", 3)
    testbed.wait_phase("before0", "Running")
    _create_hostile(testbed, "before0")
    pairs = _compare(testbed, quiet, "shared", 11)
    testbed.api.delete(imitation)
    delay = statistics.median(pair.delay for pair in pairs)
    shared, alone, slowdown = map(statistics.median, zip(*pairs, strict=True))
    with capsys.disabled():
        print(
            f"\n  an ordinary Job has its pod after {shared:.2f} s next to hostile ones, {alone:.2f} s elsewhere; "
            f"the machine is {slowdown:.1f} times as slow as a free one, which gives a delay of {delay:.2f} s",
            end="",
        )
    assert delay <= 1.0  # a minute and more before
    assert testbed.phase("before0") == "Running", "an edited annotation changes nothing"
