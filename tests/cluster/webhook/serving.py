"""A webhook that serves on this machine, with clients from several addresses."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp

from vcjob.cluster.http_server import HttpServer, Limits
from vcjob.cluster.webhook import server
from vcjob.cluster.webhook.certificates import issue, make_authority
from vcjob.cluster.webhook.server import serve_webhook
from vcjob.kube.config.tls import load_pair

#: The start of a request whose body has so many bytes.
HEAD = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"

Serve = Callable[..., Awaitable["Webhook"]]


class Webhook:
    def __init__(self, serving: HttpServer, trust: ssl.SSLContext) -> None:
        self.server = serving
        self.port = serving.port
        self.url = f"https://127.0.0.1:{self.port}"
        self.trust = trust
        self.kept: list[asyncio.StreamWriter] = []

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url + path, data=body, ssl=self.trust, headers={"Content-Type": "application/json"}
            ) as got,
        ):
            return got.status, await got.read()

    async def raw(self, data: bytes) -> bytes:
        """What comes back for bytes that may be no HTTP at all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        try:
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(1):
                return await reader.read(65536)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            return b""
        finally:
            writer.transport.abort()

    async def open(
        self, data: bytes = b"", *, tls: bool = True, source: str = "127.0.0.1"
    ) -> asyncio.StreamReader:
        """A connection that stays open after it has sent `data`."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trust if tls else None, local_addr=(source, 0)
        )
        self.kept.append(writer)
        writer.write(data)
        await writer.drain()
        return reader

    async def settle(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():
                await asyncio.sleep(0.005)


@asynccontextmanager
async def webhooks(observe: server.Observe = lambda *_: None) -> AsyncIterator[Serve]:
    now = datetime.now(UTC)
    authority = make_authority(now)
    pair = issue(authority, ["127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, pair.certificate, pair.key)
    served: list[Webhook] = []

    async def begin(**limits: Any) -> Webhook:
        serving = await serve_webhook(
            context, host="127.0.0.1", port=0, limits=Limits(**limits), observe=observe
        )
        trust = ssl.create_default_context(cadata=authority.certificate.decode())
        served.append(Webhook(serving, trust))
        return served[-1]

    yield begin
    for webhook in served:
        for writer in webhook.kept:
            writer.transport.abort()
        await webhook.server.close()
