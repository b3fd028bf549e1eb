"""Controllers that are killed, doubled or cut off: the Jobs do not notice."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.controller.conftest import Births, Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task, trio

pytestmark = pytest.mark.cluster
Spawn = Callable[[], "subprocess.Popen[bytes]"]


def test_killed_at_random_moments_the_jobs_end_as_they_would(
    testbed: ControllerCluster, spawn: Spawn, fakes: Callable[..., Any]
) -> None:
    fakes(4)
    births = Births(testbed)
    chance = random.Random(7)
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    expected = {}
    process = spawn()
    for number in range(6):
        testbed.create(trio(f"good-{number}", after="2s"))
        expected[f"good-{number}"] = "Completed"
        bad = task("a", 2, after="500ms", code=1)
        testbed.create(job(f"bad-{number}", bad, policies=policy, maxRetry=2))
        expected[f"bad-{number}"] = "Failed"
    for _ in range(4):
        time.sleep(chance.uniform(0.3, 4))
        process.send_signal(signal.SIGKILL)
        process.wait(60)
        process = spawn()
    for name, phase in expected.items():
        state = testbed.wait_phase(name, "Completed", "Failed", patience=120)["status"]["state"]
        assert (name, state["phase"]) == (name, phase), state
    assert max(births.counted().values()) == 1, "two pods for one attempt"
    retries = {name: testbed.job(name)["status"].get("retryCount", 0) for name in expected}
    assert {name: count for name, count in retries.items() if count} == {
        name: 2 for name in expected if name.startswith("bad")
    }


def test_what_was_being_deleted_when_the_controller_died_is_gone_soon(
    testbed: ControllerCluster, spawn: Spawn, fakes: Callable[..., Any]
) -> None:
    """The API server deletes in two steps, and leaves the second where whoever asked is gone."""
    fakes(4)
    process = spawn()
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    names = [f"bad-{number}" for number in range(12)]
    for name in names:
        testbed.create(job(name, task("a", 2, after="500ms", code=1), policies=policy, maxRetry=2))
    testbed.wait_phase(names[0], "Restarting", "Failed")  # it is brief, and may be missed
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    spawn()
    for name in names:
        testbed.wait_phase(name, "Failed")


def test_only_one_of_two_controllers_acts_and_the_other_takes_over(
    testbed: ControllerCluster, spawn: Spawn, fakes: Callable[..., Any]
) -> None:
    fakes(2)
    births = Births(testbed)
    first, second = spawn(), spawn()
    testbed.create(trio("shared", after="8s"))
    testbed.wait_phase("shared", "Running")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{testbed.namespace}/leases/vcjob-controller"
    holder = testbed.api.get(lease)["spec"]["holderIdentity"]
    leader, other = (first, second) if f"_{first.pid}_" in holder else (second, first)
    leader.send_signal(signal.SIGSTOP)
    try:
        testbed.api.wait(
            lease, lambda seen: f"_{other.pid}_" in seen["spec"]["holderIdentity"], what="taken over"
        )
        testbed.wait_phase("shared", "Completed")
    finally:
        leader.send_signal(signal.SIGCONT)
    assert max(births.counted().values()) == 1


def test_a_controller_that_stops_gives_the_lease_back(
    testbed: ControllerCluster, serve: Callable[..., Controller], fakes: Callable[..., Any]
) -> None:
    fakes(1)
    controller = serve()
    testbed.create(job("last", task("a", 1, after=None)))
    testbed.wait_phase("last", "Running")
    controller.stop()
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{testbed.namespace}/leases/vcjob-controller"
    assert not testbed.api.get(lease)["spec"]["holderIdentity"]
