"""The wire of a process that asks much: requests and streams by connections of our own."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import ConfigError
from vcjob.kube.http.base import CONNECT_SECONDS, AiohttpWire, Answer, Stream, WireError
from vcjob.kube.http.endpoint import Server
from vcjob.kube.http.pool import Pool
from vcjob.kube.http.stream import Streaming


class KeptWire(AiohttpWire):
    """Not for proxies."""

    def __init__(self, config: ClusterConfig) -> None:
        super().__init__(config)
        self._server = Server(config.server, config.server_name)
        self._pool = Pool(self._server)
        self._streams: set[Streaming] = set()
        self._lines: dict[str, bytes] = {}
        self._speaks_for: Credential | None = None

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
        if credential is not self._speaks_for:
            self._speak_for(credential)
        return await self._pool.fetch(method, target, self._lines_for(content_type), body, seconds)

    @asynccontextmanager
    async def stream(
        self, target: str, credential: Credential, silence: float | None
    ) -> AsyncIterator[Stream]:
        if credential is not self._speaks_for:
            self._speak_for(credential)
        request = self._server.request("GET", target, self._lines_for(""))
        streaming = await self._server.connect(lambda: Streaming(silence), CONNECT_SECONDS)
        self._streams.add(streaming)
        try:
            yield await streaming.ask(request)
        finally:
            self._streams.discard(streaming)
            streaming.close()

    async def close(self) -> None:
        for streaming in list(self._streams):
            streaming.close(WireError("the connection was closed on our side", sent=True))
        self._pool.close()
        await super().close()

    def _speak_for(self, credential: Credential) -> None:
        self._take_up(credential)
        self._speaks_for = credential
        self._lines.clear()
        self._pool.use(self._tls if isinstance(self._tls, ssl.SSLContext) else None)

    def _lines_for(self, content_type: str) -> bytes:
        lines = self._lines.get(content_type)
        if lines is None:
            headers = self._headers_for(content_type)
            if any("\r" in value or "\n" in value for value in headers.values()):
                raise ConfigError("a token or another header of the credential has a line break in it")
            text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            lines = self._lines[content_type] = text.encode()
        return lines
