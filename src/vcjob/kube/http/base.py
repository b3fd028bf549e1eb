"""One request, one answer: the HTTP library behind a small interface.

Nothing else in the package touches aiohttp's client, so another library can take its place here.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from typing import Protocol

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from vcjob._version import __version__
from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.config.tls import client_context

CONNECT_SECONDS = 10.0
READ_BUFFER = 2**18  # fewer, larger reads of a busy watch


class WireError(Exception):
    """No answer. `sent`: the server may have seen the request. `again`: trying again may help."""

    def __init__(self, words: str, *, sent: bool, again: bool = True, slow: bool = False) -> None:
        super().__init__(words)
        self.sent = sent
        self.again = again
        self.slow = slow


class Answer(msgspec.Struct):
    status: int
    retry_after: str | None
    body: bytes
    warnings: list[str]
    date: bytes = b""


class Stream(msgspec.Struct):
    status: int
    retry_after: str | None
    chunks: AsyncIterator[bytes]


class Wire(Protocol):
    """What the rest of the package needs of an HTTP library."""

    async def fetch(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None,
        content_type: str,
        credential: Credential,
        seconds: float,
    ) -> Answer: ...

    def stream(
        self, target: str, credential: Credential, silence: float | None
    ) -> AbstractAsyncContextManager[Stream]: ...

    async def close(self) -> None: ...


class AiohttpWire:
    """aiohttp, one connection pool for one API server: for what goes through a proxy."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._session: aiohttp.ClientSession | None = None
        self._credential: Credential | None = None
        self._headers: dict[str, CIMultiDict[str]] = {}
        self._tls: ssl.SSLContext | bool = True
        self._tls_pair: tuple[bytes | None, bytes | None] | None = None

    async def fetch(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None,
        content_type: str,
        credential: Credential,
        seconds: float,
    ) -> Answer:
        session = self._prepare(credential)
        try:
            async with session.request(
                method,
                URL(self._config.server + target, encoded=True),
                data=body,
                headers=self._headers_for(content_type),
                timeout=_timeout(seconds),
                ssl=self._tls,
                server_hostname=self._config.server_name,
                proxy=self._config.proxy,
                allow_redirects=False,
            ) as response:
                content = await response.read()
                warnings = response.headers.getall("Warning") if "Warning" in response.headers else []
                date = response.headers.get("Date", "").encode("latin-1", "replace")
                return Answer(response.status, response.headers.get("Retry-After"), content, warnings, date)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _wire_error(error, seconds) from error

    @asynccontextmanager
    async def stream(
        self, target: str, credential: Credential, silence: float | None
    ) -> AsyncIterator[Stream]:
        session = self._prepare(credential)
        try:
            response = await session.get(
                URL(self._config.server + target, encoded=True),
                headers=self._headers_for(""),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence),
                ssl=self._tls,
                server_hostname=self._config.server_name,
                proxy=self._config.proxy,
                allow_redirects=False,
                read_bufsize=READ_BUFFER,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _wire_error(error, silence or CONNECT_SECONDS) from error
        async with response:
            yield Stream(response.status, response.headers.get("Retry-After"), _chunks(response, silence))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # lets the transports of closed connections end in this loop

    def _take_up(self, credential: Credential) -> None:
        """Have headers and the TLS context say who we are now."""
        if credential is self._credential:
            return
        self._headers.clear()
        self._credential = credential
        pair = (credential.certificate, credential.key)
        if pair != self._tls_pair and self._config.server.startswith("https:"):
            # The pool keys connections by context, so the old certificate's are not used again.
            self._tls = client_context(self._config.ca, credential, insecure=self._config.insecure)
            self._tls_pair = pair

    def _prepare(self, credential: Credential) -> aiohttp.ClientSession:
        self._take_up(credential)
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=60, socket_factory=_socket)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            # aiohttp would send some requests twice by itself; only the transport knows when that is safe,
            # and must know that it happened.
            self._session._retry_connection = False
        return self._session

    def _headers_for(self, content_type: str) -> CIMultiDict[str]:
        headers = self._headers.get(content_type)
        if headers is None:
            assert self._credential is not None
            headers = CIMultiDict(self._credential.headers)
            headers["Accept"] = "application/json"
            headers["Accept-Encoding"] = "identity"  # unpacking costs more than the bytes of a near server
            headers["User-Agent"] = f"vcjob/{__version__}"
            if content_type:
                headers["Content-Type"] = content_type
            self._headers[content_type] = headers
        return headers


@lru_cache(maxsize=64)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(seconds, CONNECT_SECONDS))


async def _chunks(response: aiohttp.ClientResponse, silence: float | None) -> AsyncIterator[bytes]:
    """The body as it comes; only failures of the wire become WireErrors, never those of the reader."""
    stream = response.content.iter_any()
    while True:
        try:
            chunk = await anext(stream, None)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _wire_error(error, silence or CONNECT_SECONDS) from error
        if chunk is None:
            return
        yield chunk


def _socket(address: tuple[int, int, int, str, object]) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    keep_alive(made)
    return made


def keep_alive(made: socket.socket) -> None:
    """Have the kernel notice within half a minute that the other side is gone without a word."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 15),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", 30_000),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)


def _wire_error(error: Exception, seconds: float) -> WireError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return WireError(
            f"its certificate is not trusted: {error.certificate_error}", sent=False, again=False
        )
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return WireError(f"its name cannot be resolved: {error.os_error}", sent=False)
    if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        unsent = isinstance(error, aiohttp.ConnectionTimeoutError)
        return WireError(f"no answer in {seconds:.3g} s", sent=not unsent, slow=True)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return WireError(f"TLS failed: {error.os_error}", sent=False, again=False)
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientProxyConnectionError):
        return WireError(f"{error.strerror or error.os_error}", sent=False)
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return WireError(f"the proxy refused: {error.status} {error.message}", sent=False, again=False)
    if isinstance(error, aiohttp.InvalidURL | aiohttp.NonHttpUrlClientError):
        return WireError(f"not a usable address: {error}", sent=False, again=False)
    return WireError(str(error) or type(error).__name__, sent=True)
