"""Runs the whole gallery at once on one cluster: namespaces, nodes, a controller, and what happens to running pods."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.cluster.controller.conftest import JOBS, Controller
from tests.testbed.cluster import Cluster
from tests.testbed.parts.fake_nodes import remove_nodes
from vcjob.sdk.finding import find
from vcjob.sdk.handle import Handle

from .failures import (
    FAILURES,
    HEALTHY,
    ISOLATED,
    LOST_NODE,
    PLAIN,
    QUOTA,
    RESTRICTED,
    TAINTED_NODE,
    Failure,
    Object,
)

PATIENCE = 150.0
T = TypeVar("T")
_QUOTA = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "0"}}}
_NO_TRAFFIC = {"metadata": {"name": "no-traffic"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress"]}}
_CLAIM = {
    "metadata": {"name": "unbound"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "none",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


class Gallery:
    """The Jobs of all failures, created at the same time."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._api = cluster.api
        run = secrets.token_hex(3)
        self.namespaces = {kind: f"why-{run}-{kind}" for kind in (PLAIN, QUOTA, RESTRICTED, ISOLATED)}

    def prepare(self) -> None:
        for kind, name in self.namespaces.items():
            labels = {"pod-security.kubernetes.io/enforce": "restricted"} if kind == RESTRICTED else {}
            self._api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
            self._api.wait(account, lambda seen: seen is not None, what="created by the controller manager")
        core = "/api/v1/namespaces"
        self._api.create(f"{core}/{self.namespaces[QUOTA]}/resourcequotas", _QUOTA)
        self._api.create(f"{core}/{self.namespaces[PLAIN]}/persistentvolumeclaims", _CLAIM)
        policies = f"/apis/networking.k8s.io/v1/namespaces/{self.namespaces[ISOLATED]}/networkpolicies"
        self._api.create(policies, _NO_TRAFFIC)
        quota = f"{core}/{self.namespaces[QUOTA]}/resourcequotas/few"
        self._api.wait(quota, lambda seen: (seen.get("status") or {}).get("hard"), what="observed")

    def create(self, failure: Failure) -> None:
        jobs = f"{JOBS}/namespaces/{self.namespaces[failure.namespace]}/jobs"
        head = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": failure.name}}
        self._api.create(jobs, {**head, **failure.job})
        if failure.then is not None:
            threading.Thread(target=self._act, args=(failure, *failure.then), daemon=True).start()

    def handle(self, failure: Failure) -> Handle:
        return find(
            failure.name,
            on="cluster",
            namespace=self.namespaces[failure.namespace],
            kubeconfig=str(self._cluster.kubeconfig),
        )

    def on_job(self, failure: Failure) -> list[str]:
        """What the Job shows without `vcjob why`: its message, and the events about it, each with its reason."""
        namespace = self.namespaces[failure.namespace]
        job: Object = self._api.get(f"{JOBS}/namespaces/{namespace}/jobs/{failure.name}")
        state = (job.get("status") or {}).get("state") or {}
        uid = job["metadata"]["uid"]
        events = self._api.list(
            f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.uid%3D{uid}"
        )
        said = [f"{event['reason']}: {event['message']}" for event in events]
        return [f"{state.get('reason', '')}: {state.get('message', '')}", *said]

    def _act(self, failure: Failure, action: str, task: str) -> None:
        pod = f"/api/v1/namespaces/{self.namespaces[failure.namespace]}/pods/{failure.name}-{task}-0"
        self._api.wait(pod, lambda seen: seen and seen["status"]["phase"] == "Running", PATIENCE, "Running")
        if action == "evict":
            name = {"metadata": {"name": f"{failure.name}-{task}-0"}}
            self._api.create(f"{pod}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", **name})
        else:
            # It stops renewing the leases of its nodes, as a kubelet that is cut off does.
            self._cluster.part("kwok").pause()

    def remove(self) -> None:
        for name in self.namespaces.values():
            self._api.delete(f"/api/v1/namespaces/{name}")


@contextmanager
def gallery(cluster: Cluster, failures: list[Failure] = FAILURES) -> Iterator[Gallery]:
    """The Jobs of all failures on a cluster with a real node, until the block ends."""
    found = Gallery(cluster)
    nodes = cluster.fakes(1, prefix=TAINTED_NODE, taint=True) + cluster.fakes(1, prefix=LOST_NODE, taint=True)
    enforcer = cluster.start_policies()
    volcano = cluster.start_volcano("scheduler")
    found.prepare()
    names = tuple(found.namespaces.values())
    controller = Controller(cluster.kubeconfig, names[0], namespaces=names)
    try:
        for failure in (*failures, *(Failure(name, job, "") for name, (job, _) in HEALTHY.items())):
            found.create(failure)
        yield found
    finally:
        cluster.part("kwok").resume()
        found.remove()
        controller.stop()
        volcano.stop()
        enforcer.stop()
        for tool in ("iptables", "ip6tables"):  # what it blocked stays blocked until its rules are gone
            cluster.cell.run("sh", "-c", f"{tool} -F; {tool} -X", check=False)
        remove_nodes(cluster.api, nodes)


def eventually(read: Callable[[], T], holds: Callable[[T], bool], patience: float = PATIENCE) -> T:
    """What `read` returns as soon as it holds, or its last answer."""
    deadline = time.monotonic() + patience
    while True:
        found = read()
        if holds(found) or time.monotonic() > deadline:
            return found
        time.sleep(0.5)
