"""A WebSocket to the API server, for subresources that carry a stream in both directions (`exec`).

One connection per call, with the same server, proxy, TLS and credentials as every other request. A refusal is an
ApiError with the server's own message where it sent one; another answer is InvalidResponse; no answer is Unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import InvalidResponse, Unreachable, api_error, parse_status
from vcjob.kube.http.base import CONNECT_TIMEOUT
from vcjob.kube.http.identity import Identity

_MOST_STATUS = 1 << 16


@asynccontextmanager
async def open_websocket(
    config: ClusterConfig, target: str, protocols: Sequence[str]
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """The socket; `protocols` are the subprotocols that the caller speaks, the preferred one first."""
    identity = Identity(config)
    identity.update(await config.source.get())
    timeouts = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)

    async def check(response: aiohttp.ClientResponse) -> None:
        """aiohttp drops the body of a refusal, which says why: it is read before aiohttp sees the status."""
        if response.status >= 400:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                status = parse_status(await response.content.read(_MOST_STATUS))
            raise api_error(response.status, status, verb="exec", path=target.partition("?")[0])

    async with aiohttp.ClientSession(
        timeout=timeouts, cookie_jar=aiohttp.DummyCookieJar(), raise_for_status=check
    ) as session:
        try:
            socket = await session.ws_connect(
                URL(config.server + target, encoded=True),
                protocols=protocols,
                # Kubernetes 1.36 responds with 406 to a socket that accepts JSON only.
                headers=CIMultiDict(identity.headers("", accept="*/*")),
                ssl=identity.tls or True,
                server_hostname=config.server_name,
                proxy=config.proxy,
                heartbeat=20.0,
                max_msg_size=0,
            )
        except aiohttp.WSServerHandshakeError as error:
            said = f"{error.message} ({error.status})"
            raise InvalidResponse(f"the API server {config.server} opens no WebSocket: {said}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"the API server {config.server} cannot be reached: {error}") from error
        async with socket:
            yield socket
