"""A server that sends, on each connection, the bytes that a test chooses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any, TypeAlias

import pytest

from tests.kube.certificates import Authority
from vcjob.kube.config.auth import Fixed, bearer
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.config.tls import load_pair
from vcjob.kube.http.base import HttpClient, HttpRequest, StreamResponse, TransportError
from vcjob.kube.http.pooled import PooledClient

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
WATCH = HttpRequest(method="GET", target="/api?watch=true")


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@cache
def tls() -> tuple[bytes, ssl.SSLContext]:
    """A CA, and the TLS context of a server with its certificate."""
    ca, context = Authority(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, *ca.issue("server", hosts=["127.0.0.1"]))
    return ca.pem, context


class ScriptedServer:
    """Runs `handler` on each connection after the request was received (with `hasty`: at once).

    `http` is a client of the kind under test that is connected to it.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        secure: bool = False,
        hasty: bool = False,
        kind: Callable[[ClusterConfig], HttpClient] = PooledClient,
    ) -> None:
        self._handler = handler
        self._hasty = hasty
        self._tls = tls() if secure else None
        self._kind = kind
        self.asked: list[bytes] = []
        self.open = 0  # connections
        self.ended = asyncio.Event()

    async def __aenter__(self) -> ScriptedServer:
        ca, context = self._tls or (None, None)
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._listening.sockets[0].getsockname()[1]
        url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.config = ClusterConfig(server=url, source=Fixed(bearer("token")), ca=ca)
        self.http = self._kind(self.config)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.close()
        self._listening.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            if not self._hasty:
                self.asked.append(await reader.readuntil(b"\r\n\r\n"))
            await self._handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            self.ended.set()
            writer.close()

    def stream(self, idle_timeout: float | None = 5.0) -> AbstractAsyncContextManager[StreamResponse]:
        return open_stream(self.http, self.config, idle_timeout)


@asynccontextmanager
async def open_stream(
    http: HttpClient, config: ClusterConfig, idle_timeout: float | None = 5.0
) -> AsyncIterator[StreamResponse]:
    credential = await config.source.get()
    async with http.stream(WATCH, credential, idle_timeout) as stream:
        yield stream


def says(*pieces: bytes, then: Handler | None = None) -> Handler:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if then is not None:
            await then(reader, writer)

    return handler


async def waits(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Wait until the client has closed the connection."""
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_all(stream: StreamResponse) -> bytes:
    return b"".join([piece async for pieces in stream.pieces for piece in pieces])


async def failure(server: ScriptedServer, idle_timeout: float | None = 5.0) -> tuple[bytes, TransportError]:
    """What was received before the failure, and the failure."""
    received = b""
    with pytest.raises(TransportError) as caught:
        async with server.stream(idle_timeout) as stream:
            async for pieces in stream.pieces:
                received += b"".join(pieces)
    return received, caught.value


def on_loop(loop: str, behaviour: Coroutine[Any, Any, None]) -> None:
    made = pytest.importorskip(loop, reason=f"{loop} is not installed").new_event_loop
    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(behaviour)
