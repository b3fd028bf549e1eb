"""The verbs as a user types them, against a real node and a controller of ours."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from tests.cli.conftest import Result, vcjob
from tests.cluster.controller.conftest import Controller, ControllerCluster, crds
from tests.command_line import VCJOB, verb
from tests.documents import job
from tests.kube.conftest import api
from tests.kube.fake_api import FakeApi
from tests.testbed.cluster import Cluster
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from vcjob.cluster.client.jobs import JobClient
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig

__all__ = ["api", "crds", "job", "vcjob"]
PATIENCE = 90


class Shell:
    """A user's shell: `shell("status", "job")` is `vcjob status job --on cluster`, in this process, for speed;
    `shell.start` makes a process of it, to be interrupted or read as it writes."""

    def __init__(self, testbed: ControllerCluster, folder: Path) -> None:
        self.testbed = testbed
        self._folder = folder
        self._environment = {**os.environ, "KUBECONFIG": str(testbed.cluster.kubeconfig), "NO_COLOR": "1"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        return self.start_exact(*words, "--on", "cluster", "-n", self.testbed.namespace)

    def start_exact(self, *words: str) -> subprocess.Popen[str]:
        """The same with the words as they are, for verbs whose last words are a command."""
        return subprocess.Popen(
            [*VCJOB, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )

    def __call__(self, *words: str) -> Result:
        done = verb(
            *words,
            "--on",
            "cluster",
            "-n",
            self.testbed.namespace,
            KUBECONFIG=self._environment["KUBECONFIG"],
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def file(self, job: dict[str, Any]) -> str:
        path = self._folder / f"{job['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(job))
        return str(path)


def next_line(process: subprocess.Popen[str], *, errors: bool = False) -> str:
    """Its next line of output, and not a byte more: what ``readline`` buffers, ``finish`` would never see."""
    stream = process.stderr if errors else process.stdout
    assert stream is not None
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(stream.fileno(), 1)):
        line += byte
    return line.decode()


def finish(process: subprocess.Popen[str]) -> Result:
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"the verb did not end; it said:\n{out}\n{err}")
    return Result(process.returncode, out, err)


@pytest.fixture(scope="module")
def testbed(api_server: Cluster, node: Node, dns: Part, crds: None) -> Iterator[ControllerCluster]:
    """A namespace of the real cluster with a controller of ours that serves it."""
    name = f"verbs-{secrets.token_hex(3)}"
    api_server.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    api_server.api.wait(account, lambda seen: seen is not None, what="made by the controller manager")
    controller = Controller(api_server.kubeconfig, name, gang="none")
    yield ControllerCluster(api_server, name)
    controller.stop()
    api_server.api.delete(f"/api/v1/namespaces/{name}")


@pytest_asyncio.fixture
async def jobs(api: FakeApi) -> AsyncIterator[JobClient]:
    made = JobClient(ClusterConfig(server=api.url, source=Fixed()))
    yield made
    await made.close()


@pytest.fixture
def shell(testbed: ControllerCluster, tmp_path: Path) -> Shell:
    return Shell(testbed, tmp_path)


def container(script: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36.1", "command": ["sh", "-c", script], **fields}


def task(
    name: str, *containers: dict[str, Any], replicas: int = 1, restart: str = "Never", **pod: Any
) -> dict[str, Any]:
    spec = {
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": 1,
        "containers": list(containers),
        **pod,
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}
