"""An API server that misbehaves: the Jobs end as they would, and no pod is made twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.controller.conftest import Births, Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task, trio
from tests.testbed.proxy import ApiProxy, Fault

pytestmark = pytest.mark.cluster
Serve = Callable[..., Controller]


@pytest.fixture
def proxy(testbed: ControllerCluster) -> Iterator[ApiProxy]:
    with ApiProxy(testbed.cluster, "behind", "system:masters", seed=11) as proxy:
        yield proxy


def test_refused_lost_and_doubled_requests_do_no_harm(
    testbed: ControllerCluster, proxy: ApiProxy, serve: Serve, fakes: Callable[..., Any]
) -> None:
    fakes(3)
    births = Births(testbed)
    not_leases = r"/(pods|jobs|services|configmaps|networkpolicies|commands)"
    for fault in (
        Fault(method="POST", path="/pods$", answer=429, retry_after=1, chance=0.1),
        Fault(method="POST", path=not_leases, answer=500, chance=0.08),
        Fault(method="POST", path=not_leases, lose_answer=True, chance=0.1),
        Fault(method="PATCH", path=not_leases, lose_answer=True, chance=0.15),
        Fault(method="PATCH", path=not_leases, answer=409, chance=0.1),
        Fault(method="DELETE", path=not_leases, lose_answer=True, chance=0.15),
        Fault(method="DELETE", path=not_leases, answer=503, chance=0.1),
        Fault(path=not_leases, watch=True, gone=True, chance=0.3),
        Fault(path=not_leases, watch=True, cut_after=1.5, chance=0.5),
    ):
        proxy.add(fault)
    serve(proxy.kubeconfig)
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    expected = {}
    for number in range(5):
        testbed.create(trio(f"good-{number}"))
        expected[f"good-{number}"] = "Completed"
        bad = task("a", 2, after="500ms", code=1)
        testbed.create(job(f"bad-{number}", bad, policies=policy, maxRetry=2))
        expected[f"bad-{number}"] = "Failed"
    for _ in range(4):
        time.sleep(1)
        proxy.cut_watches()
    for name, phase in expected.items():
        state = testbed.wait_phase(name, "Completed", "Failed", patience=120)["status"]["state"]
        assert (name, state["phase"]) == (name, phase), state
    proxy.clear()
    assert max(births.counted().values()) == 1
    retries = {name: testbed.job(name)["status"].get("retryCount", 0) for name in expected}
    assert set(retries.values()) == {0, 2}
