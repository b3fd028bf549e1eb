"""Where one API server is: builds the bytes of requests to it and opens connections.

`ConnectionPool` and `PooledClient` use it. It knows nothing of responses. A connection that cannot be opened
raises TransportError with `sent=False`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from vcjob.kube.http.base import CONNECT_TIMEOUT, READ_BUFFER, HttpRequest, TransportError, timed_out

P = TypeVar("P", bound=asyncio.BaseProtocol)


class Endpoint:
    """One server. `context` is the TLS context of the connections that are opened from now on.

    `buffer` is what its connections read into. They share it: all of them run on one event loop, and each has
    parsed what it read before another one reads.
    """

    def __init__(self, address: str, server_name: str | None = None) -> None:
        parts = urlsplit(address)
        self.context: ssl.SSLContext | None = None
        self.buffer = memoryview(bytearray(READ_BUFFER))
        self._host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = server_name or self._host
        self._prefix = parts.path.rstrip("/").encode()
        self._fixed = b" HTTP/1.1\r\nHost: " + parts.netloc.rpartition("@")[2].encode() + b"\r\n"

    def request(self, request: HttpRequest, headers: bytes) -> bytes:
        """The bytes of a request. `headers` are complete lines."""
        method, target, body = request.method.encode(), request.target.encode(), request.body
        if body is None:
            return b"%b %b%b%b%b\r\n" % (method, self._prefix, target, self._fixed, headers)
        return b"%b %b%b%b%bContent-Length: %d\r\n\r\n%b" % (
            method, self._prefix, target, self._fixed, headers, len(body), body,
        )  # fmt: skip

    async def connect(self, protocol: Callable[[], P], seconds: float) -> P:
        """Open a connection."""
        limit = min(seconds, CONNECT_TIMEOUT)
        context = self.context if self._secure else None
        try:
            async with asyncio.timeout(limit):
                _, opened = await asyncio.get_running_loop().create_connection(
                    protocol,
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context else None,
                )
        except TimeoutError as error:
            raise timed_out(limit, sent=False) from error
        except ssl.SSLCertVerificationError as error:
            reason = f"server certificate not trusted: {error}"
            raise TransportError(reason, sent=False, retryable=False) from error
        except ssl.SSLError as error:
            raise TransportError(f"TLS failed: {error}", sent=False, retryable=False) from error
        except socket.gaierror as error:
            raise TransportError(f"cannot resolve the host name: {error}", sent=False) from error
        except OSError as error:
            raise TransportError(error.strerror or str(error), sent=False) from error
        return opened
