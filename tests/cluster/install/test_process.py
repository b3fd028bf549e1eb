"""`vcjob controller` as a process outside the cluster, and how it and `install` report bad input."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.install.conftest import CRDS, InstalledCluster
from tests.ports import port_of, reserve_port
from vcjob.kube.controller.lease import LeaseSettings

pytestmark = pytest.mark.cluster
Start = Callable[..., "Process"]
LEASE = "/apis/coordination.k8s.io/v1/namespaces/vcjob-system/leases/vcjob-controller"


class Process:
    def __init__(self, cluster: InstalledCluster, log: Path, *arguments: str) -> None:
        self.reserved = {name: reserve_port() for name in ("webhook", "health", "metrics")}
        self.ports = {name: port_of(held) for name, held in self.reserved.items()}
        self._log = log
        ports = [f"--{name}-port={port}" for name, port in self.ports.items()]
        command = [sys.executable, "-m", "vcjob.cli.main", "controller", "--host=127.0.0.1", *ports]
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [*command, f"--kubeconfig={cluster.cluster.kubeconfig}", *arguments],
                stdout=output,
                stderr=output,
            )

    def get(self, port: str, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[port]}{path}", timeout=5) as answer:
            return str(answer.read().decode())

    def wait_ready(self, patience: float = 60) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                self.get("health", "/readyz")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(f"not ready: {self.said}")

    @property
    def said(self) -> str:
        return self._log.read_text()


@pytest.fixture
def start(bare: InstalledCluster, tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def begin(*arguments: str) -> Process:
        started.append(Process(bare, tmp_path / f"{len(started)}.log", *arguments))
        return started[-1]

    yield begin
    for process in started:
        if process.process.poll() is None:
            process.process.kill()
        process.process.wait(60)
        for held in process.reserved.values():
            held.close()


def test_a_cluster_without_the_definitions_is_reported_with_a_hint(bare: InstalledCluster) -> None:
    bare.api.create("/api/v1/namespaces", {"metadata": {"name": "vcjob-system"}})
    done = bare.vcjob("controller", "--no-webhook", "--health-port=0", "--metrics-port=0")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    last = json.loads(done.stderr.splitlines()[-1])
    assert last["level"] == "error"
    assert "vcjob install" in last["hint"]
    ill = bare.vcjob("doctor", "--on", "cluster", "-o", "json")
    assert ill.returncode == 3
    standings = {check["topic"]: check["standing"] for check in json.loads(ill.stdout)["cluster"]}
    assert standings["Jobs"] == standings["controller"] == "missing"
    assert standings["cluster"] == "ok"


def test_it_serves_and_hands_over_on_sigterm(bare: InstalledCluster, start: Start) -> None:
    assert bare.install("--wait", "0").returncode == 0
    first = start()
    first.wait_ready()
    assert "vcjob_build_info" in first.get("metrics", "/metrics")
    bare.api.wait(LEASE, lambda seen: seen and seen["spec"].get("holderIdentity"), 30, "held")
    second = start("--log-format=text")
    second.wait_ready()
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(30) == 0
    assert all(json.loads(line)["message"] for line in first.said.splitlines())
    bare.api.wait(
        LEASE,
        lambda seen: str(second.process.pid) in seen["spec"].get("holderIdentity", ""),
        30,
        "taken over",
    )
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(30) == 0
    assert bare.api.get(LEASE)["spec"]["holderIdentity"] == ""


def test_a_killed_leader_is_replaced_within_ten_seconds(bare: InstalledCluster, start: Start) -> None:
    assert bare.install("--wait", "0").returncode == 0
    first = start("--no-webhook")
    first.wait_ready()
    bare.api.wait(LEASE, _held_by(first), 30, "held by the first")
    second = start("--no-webhook")
    second.wait_ready()
    first.process.kill()
    bare.api.wait(LEASE, _held_by(second), 120, "held by the second")
    limits = LeaseSettings()  # on a busy machine it may take longer than these allow
    assert limits.lease_seconds + 1.2 * limits.retry_seconds < 10


def _held_by(process: Process) -> Callable[[Any], bool]:
    return lambda seen: bool(seen) and f"_{process.process.pid}_" in seen["spec"].get("holderIdentity", "")


def test_a_definition_that_somebody_put_in_place_of_ours_is_noticed(
    bare: InstalledCluster, start: Start
) -> None:
    assert bare.install("--wait", "0").returncode == 0
    definition = bare.api.get(f"{CRDS}/jobs.batch.volcano.sh")
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["suspend"]
    bare.api.request("PUT", f"{CRDS}/jobs.batch.volcano.sh", definition)
    process = start()
    process.wait_ready()
    assert "lacks spec.suspend" in process.said
    assert bare.install("--wait", "0", "--force-conflicts").returncode == 0
    found = bare.api.get(f"{CRDS}/jobs.batch.volcano.sh")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "suspend" in found["properties"]["spec"]["properties"]


def test_a_port_in_use_is_reported(bare: InstalledCluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = bare.vcjob("controller", "--host=127.0.0.1", f"--health-port={port}")
    assert done.returncode == 3
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


@pytest.mark.parametrize("verb", ["install", "uninstall", "controller"])
def test_bad_credentials_and_contexts_are_reported(bare: InstalledCluster, tmp_path: Path, verb: str) -> None:
    document = json.loads(bare.cluster.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": "expired"}
    stale = tmp_path / "kubeconfig"
    stale.write_text(json.dumps(document))
    arguments = ["--health-port=0", "--metrics-port=0", "--no-webhook"] if verb == "controller" else []
    wrong = bare.vcjob(verb, "--context", "nowhere", *arguments)
    assert wrong.returncode == 3
    assert "nowhere" in wrong.stderr
    if verb != "controller":  # a running controller waits for better times, for a token may be renewed
        old = bare.vcjob(verb, "--kubeconfig", str(stale))
        assert old.returncode == 3
        assert "hint: the credentials were not accepted" in old.stderr
