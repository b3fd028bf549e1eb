"""Logs of real containers, read through the API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.testbed.cluster import Cluster
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import PODS
from vcjob.kube.config.config import load
from vcjob.kube.errors import BadRequest, NotFound

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node")]


@pytest_asyncio.fixture
async def client(api_server: Cluster) -> AsyncIterator[Client]:
    async with Client(load(api_server.kubeconfig, environ={})) as made:
        yield made


async def start(client: Client, namespace: str, name: str, script: str, restart: str = "Never") -> None:
    container = {"name": "c", "image": "busybox:1.36.1", "command": ["sh", "-c", script]}
    spec = {
        "restartPolicy": restart,
        "nodeName": "node",
        "terminationGracePeriodSeconds": 0,
        "containers": [container],
    }
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace)


async def until_started(client: Client, namespace: str, name: str, restarts: int = 0) -> None:
    async with asyncio.timeout(60):
        while True:
            status = (await client.get(PODS, name, namespace)).get("status", {})
            for state in status.get("containerStatuses") or []:
                if state["restartCount"] >= restarts and "waiting" not in state["state"]:
                    return
            await asyncio.sleep(0.2)


async def test_a_log_is_followed_to_the_end_of_its_container(client: Client, namespace: str) -> None:
    await start(client, namespace, "p", "for i in 1 2 3; do echo line $i; sleep 0.5; done; printf end")
    await until_started(client, namespace, "p")
    async with asyncio.timeout(30):
        lines = [line async for line in client.logs("p", namespace, container="c", follow=True)]
    assert lines == [b"line 1", b"line 2", b"line 3", b"end"]
    assert [line async for line in client.logs("p", namespace, tail=2)] == [b"line 3", b"end"]
    stamped = [line async for line in client.logs("p", namespace, timestamps=True, tail=1)]
    stamp = stamped[0].split()[0].decode()
    assert stamped[0].endswith(b" end")
    since = [line async for line in client.logs("p", namespace, since_time=stamp)]
    assert since == lines[-len(since) :]  # whole seconds only: earlier lines of the same second come too


async def test_the_log_of_the_previous_instance_is_kept(client: Client, namespace: str) -> None:
    await start(client, namespace, "p", "echo attempt; sleep 3; exit 3", restart="Always")
    await until_started(client, namespace, "p", restarts=1)
    assert [line async for line in client.logs("p", namespace, previous=True)] == [b"attempt"]


async def test_a_missing_log_raises_the_servers_message(client: Client, namespace: str) -> None:
    await start(client, namespace, "p", "sleep 60")
    await until_started(client, namespace, "p")
    with pytest.raises(BadRequest, match="previous terminated container"):
        [line async for line in client.logs("p", namespace, previous=True)]
    with pytest.raises(BadRequest, match="container nobody is not valid"):
        [line async for line in client.logs("p", namespace, container="nobody")]
    with pytest.raises(NotFound):
        [line async for line in client.logs("no-such-pod", namespace)]


async def test_a_reader_that_stops_early_leaves_no_connection_behind(client: Client, namespace: str) -> None:
    await start(client, namespace, "p", "while true; do echo x; sleep 0.1; done")
    await until_started(client, namespace, "p")
    logs = client.logs("p", namespace, follow=True)
    assert await anext(logs) == b"x"
    await logs.aclose()
    await client.get(PODS, "p", namespace)
