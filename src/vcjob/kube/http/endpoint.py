"""Where the API server is: the text of a request to it, and a connection, or why there is none."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from vcjob.kube.http.base import CONNECT_SECONDS, WireError

P = TypeVar("P", bound=asyncio.Protocol)


class Server:
    """One server. `context`: the TLS context that connections are made with from now on."""

    def __init__(self, address: str, server_name: str | None = None) -> None:
        parts = urlsplit(address)
        self.context: ssl.SSLContext | None = None
        self._host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = server_name or self._host
        self._prefix = parts.path.rstrip("/").encode()
        self._fixed = b" HTTP/1.1\r\nHost: " + parts.netloc.rpartition("@")[2].encode() + b"\r\n"

    def request(self, method: str, target: str, headers: bytes, body: bytes | None = None) -> bytes:
        """The whole of a request. `headers` are whole lines."""
        text = b"%b %b%b%b%b" % (method.encode(), self._prefix, target.encode(), self._fixed, headers)
        if body is not None:
            return text + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        return text + b"\r\n"

    async def connect(self, protocol: Callable[[], P], seconds: float) -> P:
        """A new connection. Raises WireError where none can be made."""
        patience = min(seconds, CONNECT_SECONDS)
        context = self.context if self._secure else None
        try:
            async with asyncio.timeout(patience):
                _, made = await asyncio.get_running_loop().create_connection(
                    protocol,
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=self._server_name if context else None,
                )
        except TimeoutError as error:
            raise WireError(f"no answer in {patience:.3g} s", sent=False, slow=True) from error
        except ssl.SSLCertVerificationError as error:
            raise WireError(f"its certificate is not trusted: {error}", sent=False, again=False) from error
        except ssl.SSLError as error:
            raise WireError(f"TLS failed: {error}", sent=False, again=False) from error
        except socket.gaierror as error:
            raise WireError(f"its name cannot be resolved: {error}", sent=False) from error
        except OSError as error:
            raise WireError(error.strerror or str(error), sent=False) from error
        return made
