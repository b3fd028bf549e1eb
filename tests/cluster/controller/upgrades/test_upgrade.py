"""Releases that take over from each other in the middle of runs: nothing restarts and nothing is lost.

The pods run on fake nodes until the test ends them, so every Job is in the middle of its run at every takeover.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller.conftest import Births, ControllerCluster
from tests.cluster.controller.jobs import Object, job, task, trio
from tests.cluster.controller.upgrades.releases import FLAT_LAYOUT, Release, current, earlier
from tests.testbed.parts.fake_nodes import COMPLETE_AFTER, FAIL_WITH
from vcjob.wellknown import reasons

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(600)]
PATIENCE = 180
EACH = 5
RESTART = {"event": "PodFailed", "action": "RestartJob"}


class Fleet:
    """Six shapes of Job, five of each, and what happens to their pods.

    steady        runs from the beginning to the end
    restarted     a worker fails before the first takeover, and the Job restarts at once
    delayed       a worker fails before each takeover, and the restart is due after it
    suspended     suspended before the first takeover; the request to resume waits for the next leader
    partial       one worker succeeded and its pod was deleted; it must not run again
    dependent     the workers wait for the master, which starts after the first takeover
    """

    #: Pods that are ever created for one Job of each shape: three for every run.
    PODS = {"steady": 3, "restarted": 6, "delayed": 9, "suspended": 6, "partial": 3, "dependent": 3}
    RETRIES = {"restarted": 1, "delayed": 2}

    def __init__(self, testbed: ControllerCluster) -> None:
        self.testbed = testbed
        self.births = Births(testbed)
        self.short: list[str] = []

    def names(self, shape: str) -> list[str]:
        return [f"{shape}-{number}" for number in range(EACH)]

    def create(self) -> None:
        hold: Any = {"schedulingGates": [{"name": "testbed.invalid/hold"}]}
        for number in range(EACH):
            for document in (
                trio(f"steady-{number}", after=None),
                trio(f"restarted-{number}", after=None, policies=[RESTART]),
                trio(f"delayed-{number}", after=None, policies=[{**RESTART, "timeout": "15s"}]),
                trio(f"suspended-{number}", after=None),
                trio(f"partial-{number}", after=None),
                job(
                    f"dependent-{number}",
                    task("master", 1, after=None, pod=hold),
                    task("worker", 2, after=None, dependsOn={"name": ["master"]}),
                ),
            ):
                self.testbed.create(document)

    def wait(self, shape: str, phase: str) -> list[Object]:
        return [self.testbed.wait_phase(name, phase, patience=PATIENCE) for name in self.names(shape)]

    def pods(self, *shapes: str) -> dict[str, Object]:
        return {
            pod["metadata"]["name"]: pod
            for pod in self.testbed.pods()
            if pod["metadata"]["name"].startswith(shapes)
        }

    def uids(self) -> dict[str, str]:
        """The pods that nothing but a mistake could replace during a takeover."""
        return {
            name: pod["metadata"]["uid"]
            for name, pod in self.pods("steady", "restarted", "partial", "dependent").items()
        }

    def end(self, shape: str, pod: str, code: int | None = None) -> None:
        """End a pod of every Job of a shape: with success, or with an exit code."""
        for name in self.names(shape):
            self.end_pod(f"{name}-{pod}", code)

    def end_pod(self, name: str, code: int | None = None) -> None:
        annotations = {COMPLETE_AFTER: "1ms", **({FAIL_WITH: str(code)} if code else {})}
        self.testbed.api.patch(f"{self.testbed.core}/pods/{name}", {"metadata": {"annotations": annotations}})

    def command(self, shape: str, action: str) -> None:
        for name in self.names(shape):
            self.testbed.command(name, action)

    def start_short(self, prefix: str) -> None:
        """Jobs that start and end while the leader changes."""
        for number in range(10):
            self.short.append(f"short-{prefix}-{number}")
            self.testbed.create(trio(self.short[-1], after="1s"))

    def wait_retries(self, shape: str, count: int) -> None:
        for name in self.names(shape):
            self.testbed.api.wait(
                f"{self.testbed.jobs}/{name}",
                lambda seen: (
                    seen["status"].get("retryCount", 0) == count
                    and seen["status"]["state"]["phase"] == "Running"
                    and seen["status"].get("running") == 3
                ),
                PATIENCE,
                f"running again after {count} restarts",
            )


@pytest.fixture
def launch(
    testbed: ControllerCluster, tmp_path: Path
) -> Iterator[Callable[[Release], subprocess.Popen[bytes]]]:
    """``launch(release)`` starts the controller of a release; it ends with the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(release: Release) -> subprocess.Popen[bytes]:
        log = tmp_path / f"controller-{len(started)}.log"
        started.append(release.start(testbed.cluster.kubeconfig, testbed.namespace, log))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait(30)


@pytest.mark.parametrize("revision", ["HEAD~1", FLAT_LAYOUT])
def test_jobs_continue_through_an_upgrade_and_a_downgrade(
    revision: str,
    testbed: ControllerCluster,
    fakes: Callable[..., Any],
    launch: Callable[[Release], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    """An upgrade as a rolling update does it, then a downgrade after a crash, then the upgrade again."""
    fakes(4)
    before, after = earlier(revision, tmp_path), current()
    fleet = Fleet(testbed)
    leader = launch(before)
    prepare(fleet)

    standby = launch(after)
    uids = fleet.uids()
    fleet.start_short("upgrade")
    fleet.command("suspended", "ResumeJob")
    leader.terminate()
    assert leader.wait(60) == 0, (tmp_path / "controller-0.log").read_text()[-4000:]
    leader = standby
    settled(testbed, "after-upgrade")
    assert fleet.uids().items() >= uids.items(), "an upgrade replaced a pod"
    fleet.wait_retries("delayed", 1)
    fleet.wait("suspended", "Running")
    open_gates(fleet)
    fleet.wait("dependent", "Running")

    fleet.end("delayed", "worker-0", code=3)
    for name in fleet.names("delayed"):
        wait_failed_pod(testbed, name)
    uids = fleet.uids()
    fleet.start_short("downgrade")
    leader.kill()
    leader.wait(30)
    launch(before)
    settled(testbed, "after-downgrade")
    assert fleet.uids() == uids, "a downgrade replaced a pod"
    fleet.wait_retries("delayed", 2)

    launch(after)  # it waits for the Lease while the earlier release leads, and both know the same Jobs
    complete(fleet)
    check(fleet)


def prepare(fleet: Fleet) -> None:
    """Bring every Job to the point where the first takeover finds it."""
    fleet.create()
    for shape in ("steady", "restarted", "delayed", "suspended", "partial"):
        fleet.wait(shape, "Running")
    fleet.testbed.wait_pods(lambda pods: running(pods) == 5 * 3 * EACH, PATIENCE)
    fleet.end("restarted", "worker-0", code=3)
    fleet.end("partial", "worker-1")
    fleet.command("suspended", "AbortJob")
    fleet.wait("suspended", "Aborted")
    fleet.wait_retries("restarted", 1)
    for name in fleet.names("partial"):
        fleet.testbed.api.wait(
            f"{fleet.testbed.jobs}/{name}", lambda seen: seen["status"].get("succeeded") == 1, PATIENCE
        )
        fleet.testbed.api.delete(f"{fleet.testbed.core}/pods/{name}-worker-1")
    fleet.end("delayed", "worker-1", code=3)
    for name in fleet.names("delayed"):
        wait_failed_pod(fleet.testbed, name)


def running(pods: list[Object]) -> int:
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def wait_failed_pod(testbed: ControllerCluster, name: str) -> None:
    """Until the controller has recorded that a pod failed; the restart is due later."""
    testbed.api.wait(
        f"{testbed.jobs}/{name}", lambda seen: seen["status"].get("failed"), PATIENCE, "with a failed pod"
    )


def settled(testbed: ControllerCluster, name: str) -> None:
    """Until the new leader has served what waited for it: a Job that was created last, and every Command."""
    testbed.create(trio(name, after="100ms"))
    testbed.wait_phase(name, "Completed", patience=PATIENCE)
    commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{testbed.namespace}/commands"
    testbed.api.wait(commands, lambda seen: not seen["items"], PATIENCE, "without Commands")


def open_gates(fleet: Fleet) -> None:
    for name in fleet.names("dependent"):
        pod = f"{fleet.testbed.core}/pods/{name}-master-0"
        fleet.testbed.api.patch(pod, {"spec": {"schedulingGates": None}})


def complete(fleet: Fleet) -> None:
    for name, pod in fleet.pods(*fleet.PODS).items():
        if pod["status"].get("phase") == "Running":
            fleet.end_pod(name)
    for shape in fleet.PODS:
        fleet.wait(shape, "Completed")
    for name in fleet.short:
        fleet.testbed.wait_phase(name, "Completed", patience=PATIENCE)


def check(fleet: Fleet) -> None:
    """Nothing ran twice, nothing was left out, and no release complained about what another had written."""
    testbed = fleet.testbed
    owners: dict[str, str] = {}
    for document in testbed.api.list(testbed.jobs):
        name = document["metadata"]["name"]
        owners[document["metadata"]["uid"]] = name
        retries = fleet.RETRIES.get(name.partition("-")[0], 0)
        assert (name, document["status"].get("retryCount", 0)) == (name, retries)
    born = fleet.births.counted()
    assert max(born.values()) == 1, "two pods for one attempt"
    per_job = Counter(owners[uid] for uid, _, _ in born)
    assert per_job == {name: fleet.PODS.get(name.partition("-")[0], 3) for name in owners.values()}
    complaints = {reasons.STATUS_UNREADABLE, reasons.INVALID_UPDATE, reasons.INVALID_JOB}
    assert [
        event for event in testbed.api.list(f"{testbed.core}/events") if event["reason"] in complaints
    ] == []
