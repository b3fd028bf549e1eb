"""The fault tools do what they say, so that a storm made of them means something."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from typing import Any

import pytest

from tests.testbed import faults
from tests.testbed.api import Api, ApiError
from tests.testbed.cluster import Cluster
from tests.testbed.proxy import ApiProxy, Fault
from tests.testbed.tests.test_node import start_pod

pytestmark = pytest.mark.cluster


@pytest.fixture
def proxy(api_server: Cluster) -> Iterator[ApiProxy]:
    with ApiProxy(api_server, "somebody", "system:masters") as proxy:
        yield proxy


def test_a_request_passes_the_proxy_unchanged_under_its_identity(
    api_server: Cluster, proxy: ApiProxy, namespace: str
) -> None:
    api = Api(proxy.kubeconfig)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    made = api.create(maps, {"metadata": {"name": "one"}, "data": {"key": "ä" * 1000}})
    assert api_server.api.get(f"{maps}/one")["data"] == made["data"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    assert (
        api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)["status"]["userInfo"][
            "username"
        ]
        == "somebody"
    )


@pytest.mark.parametrize("code", [409, 410, 429, 500])
def test_the_proxy_answers_with_the_code_it_is_told(proxy: ApiProxy, code: int) -> None:
    fault = proxy.add(Fault(method="GET", path="/namespaces/default$", answer=code, retry_after=1, times=2))
    api = Api(proxy.kubeconfig)
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            api.get("/api/v1/namespaces/default")
        assert refused.value.code == code
    assert api.get("/api/v1/namespaces/default")["metadata"]["name"] == "default"
    assert fault.used == 2


def test_a_lost_answer_hides_what_was_done(api_server: Cluster, proxy: ApiProxy, namespace: str) -> None:
    proxy.add(Fault(method="POST", path="/configmaps$", lose_answer=True, times=1))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    # The client tries once more on a new connection, and only then learns that the first try had worked.
    with pytest.raises(ApiError) as refused:
        Api(proxy.kubeconfig).create(maps, {"metadata": {"name": "twice"}})
    assert refused.value.reason == "AlreadyExists"
    assert api_server.api.get(f"{maps}/twice")


def test_a_dropped_request_never_arrives(api_server: Cluster, proxy: ApiProxy, namespace: str) -> None:
    proxy.add(Fault(method="POST", path="/configmaps$", drop=True))
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    with pytest.raises((OSError, HTTPException)):
        Api(proxy.kubeconfig).create(maps, {"metadata": {"name": "never"}})
    assert api_server.api.find(f"{maps}/never") is None


def test_a_delay_delays(proxy: ApiProxy) -> None:
    proxy.add(Fault(path="/version", delay=0.4, times=1))
    began = time.monotonic()
    Api(proxy.kubeconfig).get("/version")
    assert time.monotonic() - began >= 0.4


def test_open_watches_are_cut(api_server: Cluster, proxy: ApiProxy, namespace: str) -> None:
    api = Api(proxy.kubeconfig)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    stream = api.watch(maps, api.get(maps)["metadata"]["resourceVersion"], 600)
    api_server.api.create(maps, {"metadata": {"name": "seen"}})
    assert "ADDED" in {next(stream)["type"] for _ in range(1)}
    assert proxy.cut_watches() == 1
    with pytest.raises((OSError, HTTPException, StopIteration)):
        while True:
            next(stream)


def test_a_watch_can_say_that_its_version_is_gone(proxy: ApiProxy) -> None:
    proxy.add(Fault(watch=True, gone=True, times=1))
    event = next(Api(proxy.kubeconfig).watch("/api/v1/namespaces", "1", 5))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_a_watch_can_break_off_in_the_middle_of_a_line(proxy: ApiProxy) -> None:
    proxy.add(Fault(watch=True, cut_after=0.2, times=1))
    api = Api(proxy.kubeconfig)
    version = api.get("/api/v1/namespaces")["metadata"]["resourceVersion"]
    with pytest.raises((OSError, HTTPException, ValueError)):
        list(api.watch("/api/v1/namespaces", version, 10))


def test_a_pulled_cable_makes_the_api_server_silent_and_heals(api_server: Cluster) -> None:
    address = (api_server.cell.address, 6443)
    with faults.unreachable(api_server), pytest.raises(OSError):
        socket.create_connection(address, timeout=0.5)
    with socket.create_connection(address, timeout=10) as connection:
        context = ssl.create_default_context(cafile=str(api_server.control_plane.certificates.file))
        assert context.wrap_socket(connection, server_hostname=address[0]).version()


@pytest.mark.usefixtures("node", "dns")
def test_two_pods_can_be_cut_off_from_each_other(api_server: Cluster, namespace: str) -> None:
    paths = [start_pod(api_server, namespace, name, "sleep 1000") for name in ("one", "two")]
    pods = [
        api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
        for path in paths
    ]
    one, two = (pod["status"]["podIP"] for pod in pods)
    container = pods[0]["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    ping = [
        "ctr",
        "--address",
        "/run/containerd/containerd.sock",
        "-n",
        "k8s.io",
        "tasks",
        "exec",
        "--exec-id",
    ]

    def reaches(number: int) -> bool:
        said = api_server.cell.run(
            *ping, f"ping{number}", container, "busybox", "ping", "-c", "1", "-W", "1", two, check=False
        )
        return said.returncode == 0

    assert reaches(1)
    with faults.pods_cut_off(api_server, one, two):
        assert not reaches(2)
    assert reaches(3)


def test_parts_can_be_paused_killed_and_restarted(fresh_cluster: Callable[[], Cluster]) -> None:
    cluster = fresh_cluster()
    server = cluster.part("kube-apiserver")
    server.pause()
    with pytest.raises(OSError):
        socket_timeout_get(cluster)
    server.resume()
    assert cluster.api.get("/version")
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    cluster.part("etcd").kill()
    cluster.part("etcd").start()
    server.kill()
    server.start()
    cluster.control_plane.wait_until_ready(server)
    assert cluster.api.get("/api/v1/namespaces/kept")


def test_a_full_disk_stops_all_writing_until_there_is_room(fresh_cluster: Callable[[], Cluster]) -> None:
    cluster = fresh_cluster()
    with faults.full_disk(cluster):
        assert not writes_last(cluster)
    cluster.api.wait("/version", lambda _: writes_last(cluster), 60, "writable again")


def socket_timeout_get(cluster: Cluster) -> None:
    with socket.create_connection((cluster.cell.address, 6443), timeout=1) as raw:
        context = ssl.create_default_context(cafile=str(cluster.control_plane.certificates.file))
        context.wrap_socket(raw, server_hostname=cluster.cell.address)


def writes_last(cluster: Cluster) -> bool:
    """Whether a good deal of data can be stored, each piece within two seconds."""
    maps = "/api/v1/namespaces/default/configmaps"
    try:
        for _ in range(40):
            body: dict[str, Any] = {"metadata": {"generateName": "big-"}, "data": {"x": "x" * 500_000}}
            cluster.api.create(f"{maps}?timeout=2s", body)
    except (ApiError, OSError, HTTPException):
        return False
    return True
