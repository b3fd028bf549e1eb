"""An HttpClient with connections of its own, for servers that are reached directly.

Small requests share a `ConnectionPool`; every stream has its own connection. It does not support proxies:
`AiohttpClient` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.http.base import CONNECT_TIMEOUT, Response, StreamResponse, TransportError
from vcjob.kube.http.endpoint import Endpoint
from vcjob.kube.http.identity import Identity
from vcjob.kube.http.pool import ConnectionPool
from vcjob.kube.http.stream import StreamConnection


class PooledClient:
    """Sends requests to the server of one ClusterConfig."""

    def __init__(self, config: ClusterConfig) -> None:
        self._identity = Identity(config)
        self._endpoint = Endpoint(config.server, config.server_name)
        self._pool = ConnectionPool(self._endpoint)
        self._streams: set[StreamConnection] = set()
        self._header_lines: dict[tuple[str, str], bytes] = {}  # by content type and accepted types

    def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None,
        content_type: str,
        credential: Credential,
        timeout: float,
        accept: str = "",
    ) -> Coroutine[Any, Any, Response]:
        headers = self._headers(credential, content_type, accept)
        return self._pool.request(method, target, headers, body, timeout)

    @asynccontextmanager
    async def stream(
        self, target: str, credential: Credential, idle_timeout: float | None, accept: str = ""
    ) -> AsyncIterator[StreamResponse]:
        endpoint = self._endpoint
        text = endpoint.request("GET", target, self._headers(credential, "", accept))
        connection = await endpoint.connect(
            lambda: StreamConnection(endpoint.buffer, idle_timeout), CONNECT_TIMEOUT
        )
        self._streams.add(connection)
        try:
            yield await connection.request(text)
        finally:
            self._streams.discard(connection)
            connection.close()

    async def close(self) -> None:
        for connection in list(self._streams):
            connection.close(TransportError("the client was closed", sent=True))
        self._pool.close()

    def _headers(self, credential: Credential, content_type: str, accept: str) -> bytes:
        if credential is not self._identity.credential:
            self._identity.update(credential)
            self._pool.use(self._identity.tls)
            self._header_lines.clear()
        key = (content_type, accept)
        lines = self._header_lines.get(key)
        if lines is None:
            headers = self._identity.headers(content_type, accept)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
            self._header_lines[key] = lines
        return lines
