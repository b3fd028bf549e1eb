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
from vcjob.kube.http.base import CONNECT_TIMEOUT, HttpRequest, Response, StreamResponse, TransportError
from vcjob.kube.http.endpoint import Endpoint
from vcjob.kube.http.identity import Identity
from vcjob.kube.http.pool import ConnectionPool
from vcjob.kube.http.stream import StreamConnection


class PooledClient:
    """Sends requests to the server of one ClusterConfig.

    The transport uses it where no proxy is configured. It implements `HttpClient`.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._identity = Identity(config)
        self._endpoint = Endpoint(config.server, config.server_name)
        self._pool = ConnectionPool(self._endpoint)
        self._streams: set[StreamConnection] = set()
        self._header_lines: dict[tuple[str, str], bytes] = {}  # by content type and accepted types

    def request(self, request: HttpRequest, credential: Credential) -> Coroutine[Any, Any, Response]:
        return self._pool.request(request, self._headers(request, credential))

    @asynccontextmanager
    async def stream(
        self, request: HttpRequest, credential: Credential, idle_timeout: float | None
    ) -> AsyncIterator[StreamResponse]:
        endpoint = self._endpoint
        text = endpoint.request(request, self._headers(request, credential))
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

    def _headers(self, request: HttpRequest, credential: Credential) -> bytes:
        if credential is not self._identity.credential:
            self._identity.update(credential)
            self._pool.use(self._identity.tls)
            self._header_lines.clear()
        key = (request.content_type, request.accept)
        lines = self._header_lines.get(key)
        if lines is None:
            headers = self._identity.headers(*key)
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers).encode()
            self._header_lines[key] = lines
        return lines
