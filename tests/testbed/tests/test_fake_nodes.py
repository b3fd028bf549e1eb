"""Pretended nodes: pods run, end and fail on them as annotated, ten thousand at a time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.testbed.cluster import Cluster
from tests.testbed.parts.fake_nodes import COMPLETE_AFTER, FAIL_WITH

pytestmark = pytest.mark.cluster

ON_FAKES: dict[str, Any] = {
    "nodeSelector": {"type": "fake"},
    "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    "containers": [{"name": "c", "image": "none"}],
    "automountServiceAccountToken": False,
}


def phase(cluster: Cluster, path: str, wanted: str) -> dict[str, Any]:
    pod: dict[str, Any] = cluster.api.wait(path, lambda seen: seen["status"]["phase"] == wanted, 60, wanted)
    return pod


def test_pods_on_fake_nodes_run_end_and_fail_as_they_are_told(
    api_server: Cluster, namespace: str, fakes: Callable[..., list[str]]
) -> None:
    names = fakes(2, taint=True)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    plans: dict[str, dict[str, str]] = {
        "runs": {},
        "ends": {COMPLETE_AFTER: "1s"},
        "fails": {COMPLETE_AFTER: "1s", FAIL_WITH: "7"},
    }
    for name, notes in plans.items():
        api_server.api.create(pods, {"metadata": {"name": name, "annotations": notes}, "spec": ON_FAKES})
    assert phase(api_server, f"{pods}/runs", "Running")["spec"]["nodeName"] in names
    phase(api_server, f"{pods}/ends", "Succeeded")
    failed = phase(api_server, f"{pods}/fails", "Failed")
    assert failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 7
    assert api_server.api.get(f"{pods}/runs")["status"]["phase"] == "Running"
    api_server.api.delete(f"{pods}/runs")
    api_server.api.wait(f"{pods}/runs", lambda seen: seen is None, 30, "gone")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_thousands_of_fake_pods_run(
    fresh_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str]
) -> None:
    """`make scale` runs ten thousand, `make test` fewer."""
    count = int(os.environ.get("VCJOB_FAKE_PODS", "2000"))
    cluster = fresh_cluster(audit=False)
    cluster.fakes(100)
    pods = "/api/v1/namespaces/default/pods"
    began = time.monotonic()

    def make(index: int) -> None:
        cluster.api.create(pods, {"metadata": {"name": f"pod-{index}"}, "spec": ON_FAKES})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(make, range(count)))
    made = time.monotonic() - began
    # One page with one item: cheap to ask, however many pods there are.
    pending = f"{pods}?limit=1&fieldSelector=status.phase%3DPending"
    until = time.monotonic() + 600
    while cluster.api.list(pending):
        assert time.monotonic() < until, "not all pods run"
        time.sleep(0.5)
    seconds = time.monotonic() - began
    running = cluster.api.get(f"{pods}?fieldSelector=status.phase%3DRunning")["items"]
    memory = {name: part.memory() >> 20 for name, part in cluster.parts().items()}
    with capsys.disabled():
        print(
            f"\n  {len(running)} fake pods: made in {made:.0f} s, all Running after {seconds:.0f} s; MiB: {memory}",
            end="",
        )
    assert len(running) == count
