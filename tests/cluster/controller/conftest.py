from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller.controller_process import QUICK_LEASE
from tests.testbed.api import ApiError
from tests.testbed.cluster import Cluster
from vcjob.cluster.controller.controller import run_controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.install.objects.crds import definitions
from vcjob.kube.api.client import Client
from vcjob.kube.config.config import load

JOBS = "/apis/batch.volcano.sh/v1alpha1"
Object = dict[str, Any]


class Controller:
    """A controller on a thread of its own, for one namespace or several; its Lease is in the first."""

    def __init__(self, kubeconfig: Path, namespace: str, **options: Any) -> None:
        self._kubeconfig = kubeconfig
        options.setdefault("namespaces", (namespace,))
        self._options = ControllerOptions(lease_namespace=namespace, lease=QUICK_LEASE, **options)
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.error: BaseException | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._started.wait(30)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with Client(load(self._kubeconfig)) as client:
            self.requests = client.transport.counts
            self._started.set()
            await run_controller(client, self._options, stop=self._stop)

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(30)
        assert not self._thread.is_alive(), "the controller does not stop"
        if self.error is not None:
            raise self.error

    def writes(self) -> Counter[tuple[str, str]]:
        """Requests that change something, by verb and resource; the lease's own are left out."""
        counted: Counter[tuple[str, str]] = Counter()
        for (verb, resource, _), count in list(self.requests.items()):
            if verb not in ("watch", "list", "get") and resource != "leases":
                counted[verb, resource] += count
        return counted


class ControllerCluster:
    """One namespace of the cluster, as its user sees it."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = namespace
        self.jobs = f"{JOBS}/namespaces/{namespace}/jobs"
        self.core = f"/api/v1/namespaces/{namespace}"

    def create(self, job: Object) -> Object:
        return self.api.create(self.jobs, job)

    def job(self, name: str) -> Object:
        found: Object = self.api.get(f"{self.jobs}/{name}")
        return found

    def phase(self, name: str) -> str:
        return str((self.job(name).get("status") or {}).get("state", {}).get("phase", ""))

    def wait_phase(self, name: str, *phases: str, patience: float = 60) -> Object:
        found: Object = self.api.wait(
            f"{self.jobs}/{name}",
            lambda seen: ((seen or {}).get("status") or {}).get("state", {}).get("phase") in phases,
            patience,
            " or ".join(phases),
        )
        return found

    def wait_reason(self, name: str, reason: str, patience: float = 60) -> str:
        seen = self.api.wait(
            f"{self.jobs}/{name}",
            lambda seen: ((seen or {}).get("status") or {}).get("state", {}).get("reason") == reason,
            patience,
            reason,
        )
        return str(seen["status"]["state"]["message"])

    def pods(self) -> list[Object]:
        return self.api.list(f"{self.core}/pods")

    def wait_pods(self, until: Callable[[list[Object]], object], patience: float = 60) -> list[Object]:
        seen = self.api.wait(f"{self.core}/pods", lambda seen: until(seen["items"]), patience, "as awaited")
        items: list[Object] = seen["items"]
        return items

    def events(self, job: str) -> list[Object]:
        return [e for e in self.api.list(f"{self.core}/events") if e["involvedObject"]["name"] == job]

    def command(self, job: str, action: str) -> None:
        """What `vcctl job suspend|resume` does."""
        owner = self.job(job)["metadata"]
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": job,
            "uid": owner["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        self.api.create(
            f"/apis/bus.volcano.sh/v1alpha1/namespaces/{self.namespace}/commands",
            {
                "apiVersion": "bus.volcano.sh/v1alpha1",
                "kind": "Command",
                "metadata": {"generateName": f"{job}-", "ownerReferences": [target]},
                "target": target,
                "action": action,
            },
        )


class Births:
    """Every pod that was ever created in a namespace, from a watch on a thread of its own.

    It watches from the beginning: a server keeps old changes for a minute or so. A busy server may end the watch at
    any time; it is continued where it ended.
    """

    def __init__(self, testbed: ControllerCluster) -> None:
        self._ground = testbed
        self._births: Counter[tuple[str, ...]] = Counter()
        self._seen: set[str] = set()
        self._version = testbed.api.get(f"{testbed.core}/pods")["metadata"]["resourceVersion"]
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        failures = 0
        while failures < 100:  # then the cluster has ended
            try:
                for event in self._ground.api.watch(f"{self._ground.core}/pods", self._version, seconds=1200):
                    failures = 0
                    self._record(event)
            except (OSError, HTTPException):
                failures += 1
                time.sleep(0.2)

    def _record(self, event: dict[str, Any]) -> None:
        meta = event["object"]["metadata"]
        self._version = meta["resourceVersion"]
        if event["type"] == "ADDED":
            owner = meta["ownerReferences"][0]["uid"]
            self._births[owner, meta["name"], meta["labels"]["vcjob.io/attempt"]] += 1
            self._seen.add(meta["uid"])

    def counted(self) -> Counter[tuple[str, ...]]:
        """By Job, pod name and attempt."""
        self._ground.wait_pods(lambda pods: {pod["metadata"]["uid"] for pod in pods} <= self._seen)
        return self._births.copy()


@pytest.fixture(scope="session")
def crds(api_server: Cluster) -> None:
    establish(api_server)


def establish(cluster: Cluster) -> None:
    """Our own kinds; what of Volcano's is not among them comes with the tests that run Volcano."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for definition in definitions():
        name = definition["metadata"]["name"]
        if cluster.api.find(f"{path}/{name}") is None:
            cluster.api.create(path, definition)
        cluster.api.wait(f"{path}/{name}", _is_established, what="established")


def _is_established(definition: Object) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


@pytest.fixture
def testbed(api_server: Cluster, namespace: str, crds: None) -> ControllerCluster:
    return ControllerCluster(api_server, namespace)


@pytest.fixture
def serve(testbed: ControllerCluster) -> Iterator[Callable[..., Controller]]:
    """``serve()`` starts a controller for the test's namespace; it ends with the test."""
    started: list[Controller] = []

    def start(kubeconfig: Path | None = None, **options: Any) -> Controller:
        started.append(Controller(kubeconfig or testbed.cluster.kubeconfig, testbed.namespace, **options))
        return started[-1]

    yield start
    try:
        testbed.api.request("DELETE", testbed.jobs)
    except ApiError:
        pass
    for controller in started:
        controller.stop()


@pytest.fixture
def spawn(testbed: ControllerCluster, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """``spawn()`` starts a controller as a process of its own, for the test's namespace or another one."""
    started: list[subprocess.Popen[bytes]] = []

    def start(namespace: str = testbed.namespace) -> subprocess.Popen[bytes]:
        with (tmp_path / f"controller-{len(started)}.log").open("wb") as log:
            command = [
                sys.executable,
                "-m",
                "tests.cluster.controller.controller_process",
                str(testbed.cluster.kubeconfig),
            ]
            started.append(subprocess.Popen([*command, namespace], stdout=log, stderr=log, env=os.environ))
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(60)
