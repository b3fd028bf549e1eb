"""HTTP/1.1 for many small requests to one server: connections that are kept, and nothing else.

A controller's life is small requests, and a general HTTP library spends more than half of their processor
time on what an API server never asks for: redirects, cookies, compression, uploads, several hosts. Here
a request is one write, an answer one parse. Streams and proxies stay with the library.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import cast
from urllib.parse import urlsplit

from vcjob.kube.wire import CONNECT_SECONDS, Answer, WireError, keep_alive

#: A connection that nobody needed for this long is closed: each costs the memory of a dozen pods.
IDLE_SECONDS = 20.0
_MOST_HEAD = 2**16


class Pool:
    """The kept connections to one server. Those of an earlier TLS context are not used again."""

    def __init__(self, server: str, server_name: str | None = None) -> None:
        parts = urlsplit(server)
        self._host = parts.hostname or ""
        self._secure = parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        self._server_name = server_name or self._host
        self._prefix = parts.path.rstrip("/").encode()
        self._fixed = b" HTTP/1.1\r\nHost: " + parts.netloc.rpartition("@")[2].encode() + b"\r\n"
        self._context: ssl.SSLContext | None = None
        self._idle: list[_Connection] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def fetch(
        self, method: str, target: str, headers: bytes, body: bytes | None, seconds: float
    ) -> Answer:
        """Ask once. `headers` are whole lines. Raises WireError where no answer comes."""
        text = b"%b %b%b%b%b" % (method.encode(), self._prefix, target.encode(), self._fixed, headers)
        if body is not None:
            text += b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        else:
            text += b"\r\n"
        connection = self._take() or await self._connect(seconds)
        try:
            return await connection.ask(text, seconds)
        finally:
            if connection.reusable and connection.context is self._context:
                self._keep(connection)
            else:
                connection.close()

    def use(self, context: ssl.SSLContext | None) -> None:
        """Connect with this context from now on."""
        if context is not self._context:
            self.close()
            self._context = context

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()  # the latest: those beyond what is needed grow old and go
            if connection.reusable:
                return connection
        return None

    def _keep(self, connection: _Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeper is None:
            self._sweeper = loop.call_later(IDLE_SECONDS, self._sweep)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - IDLE_SECONDS
        kept = [c for c in self._idle if c.reusable and c.idle_since > oldest]
        for connection in self._idle:
            if connection.reusable and connection.idle_since <= oldest:
                connection.close()
        self._idle = kept
        self._sweeper = loop.call_later(IDLE_SECONDS / 2, self._sweep) if kept else None

    async def _connect(self, seconds: float) -> _Connection:
        patience = min(seconds, CONNECT_SECONDS)
        context = self._context if self._secure else None
        try:
            async with asyncio.timeout(patience):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(context),
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
        return connection


class _Connection(asyncio.Protocol):
    """One connection: one request at a time, its answer read as it comes."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._buffer = bytearray()
        self._head: _Head | None = None

    @property
    def reusable(self) -> bool:
        return self._transport is not None and self._waiter is None and not self._transport.is_closing()

    async def ask(self, request: bytes, seconds: float) -> Answer:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        limit = loop.call_later(
            seconds, self._fail, WireError(f"no answer in {seconds:.3g} s", sent=True, slow=True)
        )
        self._transport.write(request)
        try:
            return await self._waiter
        finally:
            limit.cancel()
            if self._waiter is not None:  # given up half-way: what still comes belongs to nobody
                self.close()

    def close(self) -> None:
        self._waiter = None
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour, not by class
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:
            self.close()  # nobody asked
            return
        self._buffer += data
        try:
            self._read()
        except ValueError:
            self._fail(WireError("it does not speak HTTP", sent=True))

    def connection_lost(self, error: Exception | None) -> None:
        head, self._transport = self._head, None
        if self._waiter is not None and head is not None and head.until_close and error is None:
            self._done(bytes(self._buffer))
        else:
            self._fail(WireError(str(error or "it closed the connection"), sent=True))

    def _read(self) -> None:
        """Take what the buffer has of the answer; the whole of it ends the wait."""
        while self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > _MOST_HEAD:
                    raise ValueError
                return
            head = _Head(bytes(self._buffer[:end]))
            del self._buffer[: end + 4]
            if head.status >= 200:  # else it only says that more is to come
                self._head = head
        head = self._head
        if head.chunked:
            if head.take_chunks(self._buffer):
                self._done(b"".join(head.chunks))
        elif not head.until_close and len(self._buffer) >= head.length:
            with memoryview(self._buffer) as view:  # one copy: lists are long
                body = bytes(view[: head.length])
            del self._buffer[: head.length]
            self._done(body)

    def _done(self, body: bytes) -> None:
        head, waiter = self._head, self._waiter
        assert head is not None and waiter is not None
        self._head = self._waiter = None
        if (head.last or self._buffer) and self._transport is not None:
            self._transport.close()
        self._buffer.clear()
        if not waiter.done():
            waiter.set_result(Answer(head.status, head.retry_after, body, head.warnings, head.date))

    def _fail(self, error: WireError) -> None:
        waiter, self._waiter = self._waiter, None
        if self._transport is not None:
            self._transport.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)


class _Head:
    """Status and headers, as far as anybody here asks for them."""

    __slots__ = (
        "chunked",
        "chunks",
        "date",
        "last",
        "length",
        "retry_after",
        "status",
        "until_close",
        "warnings",
    )

    def __init__(self, text: bytes) -> None:
        lines = text.split(b"\r\n")
        version, status, *_ = lines[0].split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError
        self.status = int(status)
        self.last = version == b"HTTP/1.0"
        self.chunked = False
        self.chunks: list[bytes] = []
        self.retry_after: str | None = None
        self.date = b""
        self.warnings: list[str] = []
        length: int | None = None
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            match name.lower():
                case b"content-length":
                    length = int(value)
                case b"transfer-encoding":
                    self.chunked = b"chunked" in value.lower()
                case b"connection":
                    self.last = b"close" in value.lower()
                case b"date":
                    self.date = value.strip()
                case b"retry-after":
                    self.retry_after = value.strip().decode("latin-1")
                case b"warning":
                    self.warnings.append(value.strip().decode("utf-8", "replace"))
        if self.status in (204, 304):
            length = 0
        self.length = length or 0
        self.until_close = length is None and not self.chunked

    def take_chunks(self, buffer: bytearray) -> bool:
        """Move whole chunks out of the buffer. True: that was the last."""
        while (end := buffer.find(b"\r\n")) >= 0:
            size = int(buffer[:end].partition(b";")[0], 16)
            if len(buffer) < end + size + 4:
                return False
            if size == 0:
                del buffer[: end + 4]  # an API server sends no trailers
                return True
            self.chunks.append(bytes(buffer[end + 2 : end + 2 + size]))
            del buffer[: end + size + 4]
        return False
