"""What a hostile tenant does apart from Jobs: ConfigMaps as large as they may be, and a flood of the webhook."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec

from tests.admission import expensive_jobs
from tests.cluster.webhook.reviews import guide, response, review
from tests.cluster.webhook.serving import HEAD, Webhook
from vcjob.kube.api.client import Client
from vcjob.kube.api.options import PARTIAL_LIST
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import BadRequest
from vcjob.kube.http.transport import Transport

_META = {"namespace": "tenant", "resourceVersion": "1", "annotations": {"x": "y" * 250_000}}


class LargeConfigMaps:
    """An API server that cannot stream lists and has `count` ConfigMaps of 1 MB and a quarter, for one informer."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.limits: set[int] = set()
        self.largest_page = 0

    def client(self) -> Client:
        config = ClusterConfig(server="https://nowhere", source=Fixed())
        return Client(config, transport=cast(Transport, self))

    async def send(self, request: Any) -> bytes:
        asked = parse_qs(urlsplit(request.target).query)
        start, limit = int(asked.get("continue", ["0"])[0]), int(asked["limit"][0])
        self.limits.add(limit)
        end = min(start + limit, self._count)
        content = {} if request.accept == PARTIAL_LIST else {"data": {"x": "y" * 2**20}}
        items = [
            {"metadata": {**_META, "name": f"c{n}", "uid": f"c{n}"}, **content} for n in range(start, end)
        ]
        metadata = {"resourceVersion": "1", "continue": str(end) if end < self._count else ""}
        page = msgspec.json.encode({"metadata": metadata, "items": items})
        self.largest_page = max(self.largest_page, len(page))
        return page

    @asynccontextmanager
    async def stream(self, request: Any, **_: Any) -> AsyncIterator[AsyncIterator[list[bytes]]]:
        if "sendInitialEvents" in request.target:
            raise BadRequest(400, server_message="sendInitialEvents is forbidden")
        yield _nothing()


async def _nothing() -> AsyncIterator[list[bytes]]:
    await asyncio.Event().wait()
    yield []


class Flood:
    """Clients of one address that keep the webhook busy in every stage of a request, and reviews of ordinary Jobs from
    another address meanwhile."""

    #: More than the webhook accepts at once.
    CLIENTS, EXPENSIVE, ORDINARY = 300, 20, 10
    _STAGES = (
        (b"", False),
        (b"", True),
        (b"POST /validate HTTP/1.1\r\nHos", True),
        (HEAD % 3_000_000 + b" " * 100_000, True),
    )

    def __init__(self, webhook: Webhook) -> None:
        self._webhook = webhook
        self._writers: list[asyncio.StreamWriter] = []
        self.served, self._end = threading.Event(), threading.Event()
        #: Whether each ordinary Job was allowed.
        self.allowed: list[bool] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """The clients have a thread of their own: the loop under test serves only the webhook."""
        thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        thread.start()
        try:
            yield
        finally:
            self._end.set()
            thread.join(60)
        assert not thread.is_alive()

    async def _run(self) -> None:
        hostile = [self._open(*self._STAGES[number % 4]) for number in range(self.CLIENTS)]
        expensive = review(expensive_jobs.unknown_dependencies(1500))
        head = HEAD % len(expensive)
        hostile += [self._open(head + expensive, True) for _ in range(self.EXPENSIVE)]
        await asyncio.gather(*hostile, return_exceptions=True)  # the webhook drops some of them
        for _ in range(self.ORDINARY):
            status, said = await self._webhook.post("/validate", review(guide()))
            self.allowed.append(status == 200 and response(said)["allowed"])
        self.served.set()
        await asyncio.to_thread(self._end.wait)
        for writer in self._writers:
            writer.transport.abort()

    async def _open(self, data: bytes, tls: bool) -> None:
        trust = self._webhook.trust if tls else None
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self._webhook.port, ssl=trust, local_addr=("127.0.0.9", 0)
        )
        self._writers.append(writer)
        writer.write(data)
        await writer.drain()
