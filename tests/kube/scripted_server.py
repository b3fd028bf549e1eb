"""A server beside the client under test, which says on each connection what a test has it say."""

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
from vcjob.kube.http.base import AiohttpWire, Stream, WireError
from vcjob.kube.http.pooled import KeptWire

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


@cache
def tls() -> tuple[bytes, ssl.SSLContext]:
    """A CA, and a server of it."""
    ca, context = Authority(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, *ca.issue("server", hosts=["127.0.0.1"]))
    return ca.pem, context


class Beside:
    """A server that says, on each connection, what `handler` says after the request (or at once: `hasty`)."""

    def __init__(
        self,
        handler: Handler,
        *,
        secure: bool = False,
        hasty: bool = False,
        wire: type[AiohttpWire] = KeptWire,
    ) -> None:
        self._handler = handler
        self._hasty = hasty
        self._tls = tls() if secure else None
        self._kind = wire
        self.asked: list[bytes] = []
        self.open = 0  # connections
        self.ended = asyncio.Event()

    async def __aenter__(self) -> Beside:
        ca, context = self._tls or (None, None)
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=context)
        self.port = self._listening.sockets[0].getsockname()[1]
        url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.config = ClusterConfig(server=url, source=Fixed(bearer("token")), ca=ca)
        self.wire = self._kind(self.config)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.wire.close()
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

    def stream(self, silence: float | None = 5.0) -> AbstractAsyncContextManager[Stream]:
        return open_stream(self.wire, self.config, silence)


@asynccontextmanager
async def open_stream(
    wire: AiohttpWire, config: ClusterConfig, silence: float | None = 5.0
) -> AsyncIterator[Stream]:
    credential = await config.source.get()
    async with wire.stream("/api?watch=true", credential, silence) as stream:
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
    """Until the other side has closed."""
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    made = writer.get_extra_info("socket")
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def all_of(stream: Stream) -> bytes:
    return b"".join([part async for part in stream.chunks])


async def failure(server: Beside, silence: float | None = 5.0) -> tuple[bytes, WireError]:
    """What came before it, and the failure."""
    came = b""
    with pytest.raises(WireError) as caught:
        async with server.stream(silence) as stream:
            async for part in stream.chunks:
                came += part
    return came, caught.value


def on_loop(loop: str, behaviour: Coroutine[Any, Any, None]) -> None:
    made = pytest.importorskip(loop, reason=f"{loop} is not installed").new_event_loop
    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(behaviour)
