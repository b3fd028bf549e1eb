"""A NetworkPolicy like the one of the svc plugin is seen to block on the real node."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.testbed.cluster import Cluster
from tests.testbed.parts.containers import SOCKET
from tests.testbed.parts.part import Part
from tests.testbed.paths import REPOSITORY
from tests.testbed.tests.test_node import start_pod

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node", "dns")]

RENDER = [sys.executable, "-c", "import sys; from vcjob.cli.main import main; sys.exit(main())", "render"]


@pytest.fixture
def enforcer(api_server: Cluster) -> Iterator[Part]:
    part = api_server.start_policies()
    yield part
    part.stop()
    # What it blocked stays blocked until its rules are gone.
    for tool in ("iptables", "ip6tables"):
        api_server.cell.run("sh", "-c", f"{tool} -F; {tool} -X", check=False)


def policy_of_the_guide() -> dict[str, Any]:
    """The NetworkPolicy that the guide's job gets, from the code that makes it."""
    guide = str(REPOSITORY / "tests/guides/guide.en.yaml")
    said = subprocess.run([*RENDER, guide, "-o", "json"], capture_output=True, text=True, check=True)
    policy: dict[str, Any] = next(
        item for item in json.loads(said.stdout)["items"] if item["kind"] == "NetworkPolicy"
    )
    return policy


def test_the_jobs_policy_lets_its_own_pods_in_and_no_others(
    api_server: Cluster, namespace: str, enforcer: Part
) -> None:
    policy = policy_of_the_guide()
    selector = json.dumps(policy["spec"]).replace('"default"', json.dumps(namespace))
    labels = json.loads(selector)["podSelector"]["matchLabels"]
    listener = "while true; do echo answered | busybox nc -l -p 8080; done"
    member = start_pod(api_server, namespace, "member", listener)
    sibling, stranger = (
        start_pod(api_server, namespace, name, "sleep 1000") for name in ("sibling", "stranger")
    )
    for path in (member, sibling):
        api_server.api.patch(path, {"metadata": {"labels": labels}})
    pods = {
        path: api_server.api.wait(path, lambda seen: seen["status"]["phase"] == "Running", what="Running")
        for path in (member, sibling, stranger)
    }
    address = pods[member]["status"]["podIP"]
    reaches = prober(api_server, address)
    wait_until(lambda: reaches(pods[stranger]), "reached before there is a policy")
    body = {"metadata": {"name": "pytorch-job"}, "spec": json.loads(selector)}
    api_server.api.create(f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies", body)
    wait_until(lambda: not reaches(pods[stranger]), "closed to strangers")
    wait_until(lambda: reaches(pods[sibling]), "open to the job's own pods")
    assert not reaches(pods[stranger])


def prober(cluster: Cluster, address: str) -> Callable[[dict[str, Any]], bool]:
    def reaches(pod: dict[str, Any]) -> bool:
        container = pod["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
        run = [
            "ctr",
            "--address",
            SOCKET,
            "-n",
            "k8s.io",
            "tasks",
            "exec",
            "--exec-id",
            f"probe-{time.monotonic_ns()}",
            container,
        ]
        probe = [
            "busybox",
            "timeout",
            "1",
            "/usr/bin/bash",
            "-c",
            f"read line < /dev/tcp/{address}/8080 && [ $line = answered ]",
        ]
        return cluster.cell.run(*run, *probe, check=False).returncode == 0

    return reaches


def wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, f"not {what}"
        time.sleep(0.2)
