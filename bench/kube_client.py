"""CPU time of the Kubernetes client per create and per watch event, compared with a plain aiohttp loop.

The server is a separate process that answers from memory, so that only the client's CPU time is measured. Both
are measured in turns; the ratio is that of the best runs. Exit code 1 if a ratio exceeds its goal.
"""

from __future__ import annotations

import asyncio
import gc
import json
import multiprocessing
import multiprocessing.connection
import sys
import time
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta, OwnerReference
from vcjob.kube.api.resources import PODS
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.controller.informer import Informer
from vcjob.kube.http.transport import Transport
from vcjob.kube.http.window import Window

GOALS = {"create": 0.45, "watch": 1.2}  # our time divided by that of the plain loop
CREATES, EVENTS, ROUNDS, IN_FLIGHT = 3000, 20_000, 4, 50


def pod(number: int, size: int) -> dict[str, object]:
    env = [{"name": f"SETTING_{i}", "value": "x" * 20} for i in range(size)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-worker-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-0000-0000-{number:012d}",
            "resourceVersion": str(1000 + number),
            "labels": {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "worker"},
            "annotations": {"volcano.sh/task-index": str(number)},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
            ],
        },
        "spec": {"containers": [{"name": "main", "image": "registry.example/train:1", "env": env}]},
        "status": {"phase": "Running"},
    }


class PodMeta(Meta, gc=False):
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: list[OwnerReference] = msgspec.field(default_factory=list)
    deletion_timestamp: str | None = None


class PodStatus(msgspec.Struct, gc=False):
    phase: str = ""
    reason: str = ""


class PartialPod(msgspec.Struct, gc=False):
    metadata: PodMeta
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PartialEvent(msgspec.Struct):
    type: str
    object: PartialPod


#: As a real API server sends them.
HEADERS = (
    b"Audit-Id: 5d7c5f1e-5b4f-4c4e-9a35-0a4e8f1d2c3b\r\nCache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\nX-Kubernetes-Pf-Flowschema-Uid: 7f1a0c5e-1b7e-4d0e-8b62-3d1f4f2a9c10\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 0d7b9f3a-6f6e-4b5e-9d53-7c1e8f9a2b30\r\n"
    b"Date: Mon, 16 Nov 2026 08:00:00 GMT\r\n"
)


class Server(asyncio.Protocol):
    """A minimal API server: a create returns what was posted, a watch all events, one chunk for each."""

    events = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            length = 0
            for line in head.split(b"\r\n"):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            self.answer(head, body)

    def answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self.transport.write(
                b"HTTP/1.1 200 OK\r\n" + HEADERS + b"Transfer-Encoding: chunked\r\n\r\n" + self.events
            )
        else:
            self.transport.write(
                b"HTTP/1.1 201 Created\r\n" + HEADERS + b"Content-Length: %d\r\n\r\n" % len(body) + body
            )


def serve(port_out: multiprocessing.connection.Connection) -> None:
    async def run() -> None:
        lines = [
            json.dumps({"type": "ADDED", "object": pod(n, 52)}, separators=(",", ":")).encode()
            for n in range(EVENTS)
        ]
        last = {"resourceVersion": "99999", "annotations": {"k8s.io/initial-events-end": "true"}}
        lines.append(json.dumps({"type": "BOOKMARK", "object": {"metadata": last}}).encode())
        chunks = [b"%x\r\n%b\n\r\n" % (len(line) + 1, line) for line in lines]
        Server.events = b"".join(chunks) + b"0\r\n\r\n"
        server = await asyncio.get_running_loop().create_server(Server, "127.0.0.1", 0)
        port_out.send((server.sockets[0].getsockname()[1], len(Server.events) // EVENTS))
        await server.serve_forever()

    asyncio.run(run())


async def many(count: int, one: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await one(number)

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))


async def bare_create(url: str) -> None:
    body = pod(1, 24)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one(_: int) -> None:
            async with session.post(
                f"{url}/api/v1/namespaces/default/pods", data=msgspec.json.encode(body)
            ) as response:
                msgspec.json.decode(await response.read())

        await many(CREATES, one)


async def our_create(url: str) -> None:
    body = pod(1, 24)
    config = ClusterConfig(server=url, source=Fixed())
    async with Client(config, transport=Transport(config, window=Window(IN_FLIGHT))) as client:
        await many(CREATES, lambda _: client.create(PODS, body, "default"))


async def bare_watch(url: str) -> None:
    decode = msgspec.json.Decoder(PartialEvent).decode
    cache: dict[str, PartialPod] = {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url}/api/v1/pods", read_bufsize=2**18) as response,
    ):
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                event = decode(line)
                cache[event.object.metadata.name] = event.object
    assert len(cache) == EVENTS + 1  # the bookmark too


async def our_watch(url: str) -> None:
    config = ClusterConfig(server=url, source=Fixed())
    async with Client(config) as client:
        informer = Informer(client, PODS.read_as(PartialPod))
        task = asyncio.create_task(informer.run())
        await informer.synced.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(informer) == EVENTS


def cpu(run: Callable[[str], Awaitable[None]], url: str) -> float:
    async def timed() -> float:
        gc.collect()
        began = time.process_time()
        await run(url)
        return time.process_time() - began

    return asyncio.run(timed())


def main() -> int:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,), daemon=True)
    process.start()
    port, event_bytes = here.recv()
    url = f"http://127.0.0.1:{port}"
    failed = False
    try:
        for name, bare, ours, count in (
            ("create", bare_create, our_create, CREATES),
            ("watch", bare_watch, our_watch, EVENTS),
        ):
            best = [min(times) for times in zip(*[(cpu(bare, url), cpu(ours, url)) for _ in range(ROUNDS)])]
            ratio = best[1] / best[0]
            failed |= ratio > GOALS[name]
            micro = [seconds / count * 1e6 for seconds in best]
            print(
                f"{name}: ours {micro[1]:.1f} µs CPU, bare loop {micro[0]:.1f} µs, ratio {ratio:.2f} (goal {GOALS[name]})"
            )
        print(f"(events of {event_bytes} bytes; the informer's part includes its index and cache)")
    finally:
        process.terminate()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
