"""The protocol between the transport and the HTTP clients, and what they exchange.

`Transport` uses it; `PooledClient` (direct connections) and `AiohttpClient` (through a proxy) implement it with
the same results. Nothing here knows of Kubernetes, retries or flow control.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from vcjob.kube.config.auth import Credential

#: What was received since the last read, in the pieces in which the server sent it.
Pieces = AsyncIterator[list[bytes]]
CONNECT_TIMEOUT = 10.0
READ_BUFFER = 2**18  # large: a busy watch then needs fewer reads


class TransportError(Exception):
    """No valid response was received.

    `sent`: the server may have received the request. `retryable`: another attempt may succeed.
    `timed_out`: the server was too slow, which may mean that it is overloaded.
    """

    def __init__(self, message: str, *, sent: bool, retryable: bool = True, timed_out: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.retryable = retryable
        self.timed_out = timed_out


class HttpRequest(msgspec.Struct, kw_only=True):
    """What an HTTP client needs to know of a request.

    The transport's `Request` adds how it may be sent. Credentials are not part of it: they come with each call.
    """

    method: str
    target: str  # path and query, as sent
    body: bytes | None = None
    content_type: str = ""
    accept: str = ""  # media types of the response; empty: JSON
    timeout: float = 30.0  # seconds for each attempt; streams have an idle timeout instead


class Response(msgspec.Struct):
    """A complete response of any status, with the headers that the transport uses.

    An error status is no exception here: the transport decides what it means.
    """

    status: int
    retry_after: str | None
    body: bytes
    warnings: list[str]
    date: bytes = b""


class StreamResponse(msgspec.Struct):
    """The head of a response whose body is still being received.

    Reading `pieces` raises TransportError. They are not joined: that would copy every event of a watch.
    """

    status: int
    retry_after: str | None
    pieces: Pieces


class HttpClient(Protocol):
    """Sends requests to one server, each exactly once. Every failure is a TransportError.

    `PooledClient` and `AiohttpClient` implement it with the same results. Retries and flow control are the
    transport's.
    """

    def request(self, request: HttpRequest, credential: Credential) -> Coroutine[Any, Any, Response]:
        """Send one request and read its whole response."""

    def stream(
        self, request: HttpRequest, credential: Credential, idle_timeout: float | None
    ) -> AbstractAsyncContextManager[StreamResponse]:
        """Send one request and read its body as it arrives, until nothing arrives for `idle_timeout` seconds."""

    async def close(self) -> None:
        """Close every connection; open streams fail."""


def enable_keepalive(connection: socket.socket) -> None:
    """Have the kernel detect within half a minute that the peer has vanished."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def timed_out(seconds: float, *, sent: bool) -> TransportError:
    return TransportError(f"no response in {seconds:.3g} s", sent=sent, timed_out=True)
