"""An HttpClient built on aiohttp, for servers that are reached through a proxy.

Apart from `websocket` the only module that uses aiohttp's client. It translates every failure of aiohttp into a
TransportError with the same meaning as those of `PooledClient`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Required, TypedDict, Unpack

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.http.base import (
    CONNECT_TIMEOUT,
    READ_BUFFER,
    HttpRequest,
    Pieces,
    Response,
    StreamResponse,
    TransportError,
    enable_keepalive,
    timed_out,
)
from vcjob.kube.http.identity import Identity

CHECK_SECONDS = 1.0  # how often a silent stream checks that its connection is still open
_FAILURES = (aiohttp.ClientError, OSError, TimeoutError)


class _Limits(TypedDict, total=False):
    """What differs between a request and a stream."""

    timeout: Required[aiohttp.ClientTimeout]
    read_bufsize: int


class AiohttpClient:
    """One aiohttp session, opened by the first request.

    The transport uses it where the configuration names a proxy. Close it on the event loop that used it. Failures are
    TransportErrors.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._identity = Identity(config)
        self._session: aiohttp.ClientSession | None = None

    async def request(self, request: HttpRequest, credential: Credential) -> Response:
        seconds = request.timeout
        limits = aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_TIMEOUT))
        try:
            async with await self._send(request, credential, timeout=limits) as response:
                content = await response.read()
        except _FAILURES as error:
            raise _transport_error(error, seconds) from error
        headers = response.headers
        date = headers.get("Date", "").encode("latin-1", "replace")
        warnings = headers.getall("Warning", [])
        return Response(response.status, headers.get("Retry-After"), content, list(warnings), date)

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, credential: Credential, idle_timeout: float | None
    ) -> AsyncIterator[StreamResponse]:
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle_timeout)
        try:
            response = await self._send(request, credential, timeout=limits, read_bufsize=READ_BUFFER)
        except _FAILURES as error:
            raise _transport_error(error, idle_timeout or CONNECT_TIMEOUT) from error
        async with response:
            pieces = _pieces(response, idle_timeout or CONNECT_TIMEOUT)
            yield StreamResponse(response.status, response.headers.get("Retry-After"), pieces)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # lets the closed connections end in this loop

    async def _send(
        self, request: HttpRequest, credential: Credential, **limits: Unpack[_Limits]
    ) -> aiohttp.ClientResponse:
        if credential is not self._identity.credential:
            self._identity.update(credential)
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=_open_socket)
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), middlewares=(_send_once,)
            )
        return await self._session.request(
            request.method,
            URL(self._config.server + request.target, encoded=True),
            data=request.body,
            headers=CIMultiDict(self._identity.headers(request.content_type, request.accept)),
            ssl=self._identity.tls or True,  # connections are pooled by context
            server_hostname=self._config.server_name,
            proxy=self._config.proxy,
            allow_redirects=False,
            **limits,
        )


class _Disconnected(aiohttp.ClientError):
    """The connection broke; its cause says how."""


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Hide a broken connection from aiohttp, which would send the request again: only the transport knows
    whether that is safe, and must know that it happened."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Disconnected from error


async def _pieces(response: aiohttp.ClientResponse, seconds: float) -> Pieces:
    """The body as it arrives. Only failures of the connection become TransportErrors, not the reader's own."""
    stream = response.content.iter_any()
    while True:
        try:
            piece = await _next_piece(response, stream)
        except _FAILURES as error:
            raise _transport_error(error, seconds) from error
        if piece is None:
            return
        yield [piece]


async def _next_piece(response: aiohttp.ClientResponse, stream: AsyncIterator[bytes]) -> bytes | None:
    """The next piece of the body; None: the body has ended.

    If a chunk is invalid, aiohttp closes the connection without telling the reader, who would wait forever.
    """
    while True:
        reading = asyncio.timeout(CHECK_SECONDS)
        try:
            async with reading:
                return await anext(stream, None)
        except TimeoutError:
            if not reading.expired():
                raise
            connection = response.connection
            transport = connection.transport if connection is not None else None
            if transport is None or transport.is_closing():
                raise TransportError("invalid HTTP response: invalid chunk", sent=True) from None


def _open_socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    opened = socket.socket(family, kind, protocol)
    enable_keepalive(opened)
    return opened


def _transport_error(error: BaseException, seconds: float) -> TransportError:
    if isinstance(error, _Disconnected) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        reason = f"server certificate not trusted: {error.certificate_error}"
        return TransportError(reason, sent=False, retryable=False)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return TransportError(f"cannot resolve the host name: {error.os_error}", sent=False)
    if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        return timed_out(seconds, sent=not isinstance(error, aiohttp.ConnectionTimeoutError))
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return TransportError(f"TLS failed: {error.os_error}", sent=False, retryable=False)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientProxyConnectionError):
        return TransportError(f"{error.strerror or error.os_error}", sent=False)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        reason = f"the proxy refused: {error.status} {error.message}"
        return TransportError(reason, sent=False, retryable=False)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return TransportError(f"unusable address: {error}", sent=False, retryable=False)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return TransportError("the server closed the connection", sent=True)
    if isinstance(error, aiohttp.ClientResponseError):
        return TransportError(f"invalid HTTP response: {' '.join(error.message.split())}", sent=True)
    return TransportError(str(error) or type(error).__name__, sent=True)
