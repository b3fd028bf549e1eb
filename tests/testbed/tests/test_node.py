"""The testbed's real node: names, networks, limits and evictions as on any Kubernetes node."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.testbed import faults
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node", "dns")]


def start_pod(cluster: Cluster, namespace: str, name: str, script: str, **spec: Any) -> str:
    """Starts a one-container pod on the real node and gives the path of its object."""
    container = {
        "name": "c",
        "image": "busybox:1.36.1",
        "command": ["sh", "-c", script],
        **spec.pop("container", {}),
    }
    pods = f"/api/v1/namespaces/{namespace}/pods"
    body = {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "node",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        },
    }
    cluster.api.create(pods, body)
    return f"{pods}/{name}"


def ended(cluster: Cluster, path: str, patience: float = 60) -> dict[str, Any]:
    pod: dict[str, Any] = cluster.api.wait(
        path, lambda seen: seen["status"]["phase"] in ("Succeeded", "Failed"), patience, "ended"
    )
    return pod


def said(cluster: Cluster, path: str) -> str:
    pod = ended(cluster, path)
    log = cluster.api.text(f"{path}/log")
    assert pod["status"]["phase"] == "Succeeded", log
    return log


@pytest.fixture
def server(api_server: Cluster, namespace: str) -> str:
    """A pod ``server`` behind a headless Service ``peers`` and a ClusterIP Service ``front``; gives the pod's address."""
    services = f"/api/v1/namespaces/{namespace}/services"
    front = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 8080}]}
    api_server.api.create(
        services,
        {"metadata": {"name": "peers"}, "spec": {"selector": {"app": "server"}, "clusterIP": "None"}},
    )
    api_server.api.create(services, {"metadata": {"name": "front"}, "spec": front})
    script = "while true; do echo answered | busybox nc -l -p 8080; done"
    path = start_pod(api_server, namespace, "server", script, hostname="server", subdomain="peers")
    pod = api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
    address: str = pod["status"]["podIP"]
    return address


def patiently(command: str) -> str:
    """Repeats a command until it works: endpoints and names spread shortly after a pod is ready."""
    return f"n=0; until {command}; do n=$((n+1)); [ $n -lt 100 ] || exit 1; sleep 0.1; done"


def test_a_pod_resolves_another_by_pod_and_service_name(
    api_server: Cluster, namespace: str, server: str
) -> None:
    script = patiently(
        "busybox nslookup server.peers.$NS.svc.cluster.local && busybox ping -c 1 -W 1 server.peers"
    )
    container = {"env": [{"name": "NS", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}]}
    path = start_pod(api_server, namespace, "asker", script, container=container)
    assert server in said(api_server, path)


def test_a_pod_talks_to_another_pod(api_server: Cluster, namespace: str, server: str) -> None:
    path = start_pod(
        api_server, namespace, "caller", patiently(f"read line < /dev/tcp/{server}/8080") + "; echo $line"
    )
    assert said(api_server, path).strip().endswith("answered")


def test_a_pod_reaches_a_service_by_its_cluster_address(
    api_server: Cluster, namespace: str, server: str
) -> None:
    front = api_server.api.get(f"/api/v1/namespaces/{namespace}/services/front")["spec"]["clusterIP"]
    path = start_pod(
        api_server, namespace, "caller", patiently(f"read line < /dev/tcp/{front}/80") + "; echo $line"
    )
    assert said(api_server, path).strip().endswith("answered")


def test_a_pod_reaches_the_api_server_with_its_own_token(api_server: Cluster, namespace: str) -> None:
    script = (
        patiently("echo > /dev/tcp/kubernetes.default/443")
        + "; cat /var/run/secrets/kubernetes.io/serviceaccount/namespace"
    )
    path = start_pod(api_server, namespace, "caller", script)
    assert namespace in said(api_server, path)


def test_a_pod_above_its_memory_limit_is_killed(api_server: Cluster, namespace: str) -> None:
    script = "x=abcdefghijklmnop; while true; do x=$x$x; done"
    path = start_pod(
        api_server, namespace, "greedy", script, container={"resources": {"limits": {"memory": "32Mi"}}}
    )
    status = ended(api_server, path)["status"]
    assert status["phase"] == "Failed"
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["reason"], terminated["exitCode"]) == ("OOMKilled", 137)


def test_a_pod_that_fills_its_volume_is_evicted(api_server: Cluster, namespace: str) -> None:
    path = start_pod(
        api_server,
        namespace,
        "filler",
        "busybox dd if=/dev/zero of=/scratch/file bs=1M count=8; sleep 1000",
        container={"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]},
        volumes=[{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}],
    )
    status = ended(api_server, path)["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Evicted")


def test_an_eviction_by_the_api_removes_the_pod(api_server: Cluster, namespace: str) -> None:
    path = start_pod(api_server, namespace, "sleeper", "sleep 1000")
    api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
    api_server.api.create(
        f"{path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "sleeper"}}
    )
    api_server.api.wait(path, lambda seen: seen is None, what="gone")


def test_nothing_is_pulled_from_outside(api_server: Cluster, namespace: str) -> None:
    path = start_pod(api_server, namespace, "stranger", "true", container={"image": "busybox:9.99"})

    def waiting(pod: Any) -> bool:
        statuses = pod["status"].get("containerStatuses") or [{}]
        return statuses[0].get("state", {}).get("waiting", {}).get("reason") in (
            "ErrImagePull",
            "ImagePullBackOff",
        )

    api_server.api.wait(path, waiting, what="refused its image")
    api_server.api.delete(path, gracePeriodSeconds=0)


def test_a_node_without_power_is_seen_to_be_lost_and_comes_back_with_its_pods(
    api_server: Cluster, namespace: str
) -> None:
    path = start_pod(api_server, namespace, "steady", "sleep 1000", restartPolicy="Always")
    api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
    faults.lose_node(api_server)
    try:
        assert not any("sleep 1000" in line for line in api_server.cell.processes().values())
        faults.node_is_lost(api_server)
    finally:
        faults.bring_node_back(api_server)

    def runs_again(pod: Any) -> bool:
        status = pod["status"]["containerStatuses"][0]
        return status["restartCount"] >= 1 and "running" in status["state"]

    api_server.api.wait(path, runs_again, 60, "running again")


def test_logs_stream_while_the_pod_runs(api_server: Cluster, namespace: str, dns: Part) -> None:
    path = start_pod(api_server, namespace, "talker", "echo first; sleep 1000")
    api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
    until = time.monotonic() + 60
    while "first" not in api_server.api.text(f"{path}/log"):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert dns.running
