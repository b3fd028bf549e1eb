"""Thousands of short Jobs through one controller on the testbed's fake nodes.

Half of the Jobs are deleted, half end by their TTL of 0. One in ten has three pods, a Service and a ConfigMap; one in
ten fails, restarts once and fails. After every thousand nothing is left, and the controller is measured at rest.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.soak.curve import Curve
from bench.soak.inside import ask
from tests.cluster.controller.controller_part import HEALTH_PORT
from tests.cluster.controller.jobs import Object, job, task, trio
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part
from vcjob.cluster.install.objects.crds import definitions

ROOT = Path(__file__).parents[2]
WAVE = 250
EVERY = 1000
#: The controller's own batches (counters, events, orphans) have ended after this time.
REST_SECONDS = 8.0
LIMIT_SECONDS = 3600.0
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
DELETED = "soak=deleted"


def soak(jobs: int) -> Curve:
    curve = Curve("controller", "Jobs")
    with Cluster.start(audit=False) as cluster:
        for definition in definitions():
            cluster.api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        cluster.fakes(10, pods=1000)
        part = _start(cluster)
        for number in range(0, jobs, WAVE):
            _wave(cluster, number, min(WAVE, jobs - number))
            done = min(number + WAVE, jobs)
            if done % EVERY == 0 or done == jobs:
                _until(lambda: not _exists(cluster, JOBS) and not _exists(cluster, PODS))
                time.sleep(REST_SECONDS)
                curve.add(done, ask(_socket(cluster)))
        part.stop()
    return curve


def _start(cluster: Cluster) -> Part:
    kubeconfig = cluster.identity("soak:vcjob", "system:masters", inner=True)
    command = [
        sys.executable, "-m", "bench.soak.inside", _socket(cluster), "controller", f"--kubeconfig={kubeconfig}",
        "--no-webhook", "--lease-namespace=kube-system", f"--health-port={HEALTH_PORT}", "--gang=none",
        "--log-level=warning",
    ]  # fmt: skip
    part = Part(cluster.cell, "vcjob-controller", command, {"PYTHONPATH": str(ROOT)}).start()
    part.wait_until(lambda: part.answers(HEALTH_PORT, "/readyz"), "ready", 60)
    return part


def _socket(cluster: Cluster) -> str:
    return str(cluster.cell.folder / "soak.socket")


def _wave(cluster: Cluster, first: int, count: int) -> None:
    """Create Jobs, wait until those with a TTL are gone, and delete the others."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: cluster.api.create(JOBS, job_of(number)), range(first, first + count)))
    _until(lambda: not _exists(cluster, f"{JOBS}?labelSelector=soak%3Dexpires"))
    cluster.api.request("DELETE", f"{JOBS}?labelSelector={DELETED.replace('=', '%3D')}")


def job_of(number: int, after: str = "100ms") -> Object:
    """The Job of a number: what it runs, and how it is removed. Its pods run for `after`."""
    name = f"soak-{number}"
    if number % 10 == 0:
        document = trio(name, after=after)
    elif number % 10 == 1:
        policies = [{"event": "PodFailed", "action": "RestartJob"}]
        document = job(name, task("worker", 1, after=after, code=1), policies=policies, maxRetry=2)
    else:
        document = job(name, task("worker", 1, after=after))
    document["spec"]["activeDeadlineSeconds"] = 86_400
    # Every kind of Job ends both ways.
    if number // 10 % 2:
        document["metadata"]["labels"] = {"soak": "deleted"}
    else:
        document["metadata"]["labels"] = {"soak": "expires"}
        document["spec"]["ttlSecondsAfterFinished"] = 0
    return document


def _exists(cluster: Cluster, path: str) -> bool:
    return bool(cluster.api.list(f"{path}{'&' if '?' in path else '?'}limit=1"))


def _until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + LIMIT_SECONDS
    while not holds():
        if time.monotonic() > limit:
            raise TimeoutError(f"the controller has not finished a wave after {LIMIT_SECONDS:.0f} s")
        time.sleep(0.3)
