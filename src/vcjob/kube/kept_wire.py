"""The wire of a process that asks much: small requests by connections of our own, streams by aiohttp."""

from __future__ import annotations

import ssl

from vcjob.kube.auth import Credential
from vcjob.kube.config import ClusterConfig
from vcjob.kube.errors import ConfigError
from vcjob.kube.http1 import Pool
from vcjob.kube.wire import AiohttpWire, Answer


class KeptWire(AiohttpWire):
    """Not for proxies."""

    def __init__(self, config: ClusterConfig) -> None:
        super().__init__(config)
        self._pool = Pool(config.server, config.server_name)
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
            self._take_up(credential)
            self._speaks_for = credential
            self._lines.clear()
            self._pool.use(self._tls if isinstance(self._tls, ssl.SSLContext) else None)
        return await self._pool.fetch(method, target, self._lines_for(content_type), body, seconds)

    async def close(self) -> None:
        self._pool.close()
        await super().close()

    def _lines_for(self, content_type: str) -> bytes:
        lines = self._lines.get(content_type)
        if lines is None:
            headers = self._headers_for(content_type)
            if any("\r" in value or "\n" in value for value in headers.values()):
                raise ConfigError("a token or another header of the credential has a line break in it")
            text = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            lines = self._lines[content_type] = text.encode()
        return lines
