"""HTTP/1.1 for many small requests to one server: connections that are kept, and nothing else.

A controller's life is small requests, and a general HTTP library spends more than half of their processor
time on what an API server never asks for: redirects, cookies, compression, uploads, several hosts. Here
a request is one write, an answer one parse. Proxies stay with the library.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import cast

from vcjob.kube.http.base import Answer, WireError, keep_alive
from vcjob.kube.http.endpoint import Server
from vcjob.kube.http.parser import ProtocolError, ResponseParser

#: A connection that nobody needed for this long is closed: each costs the memory of a dozen pods.
IDLE_SECONDS = 20.0


class Pool:
    """The kept connections to one server. Those of an earlier TLS context are not used again."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._idle: list[_Connection] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def fetch(
        self, method: str, target: str, headers: bytes, body: bytes | None, seconds: float
    ) -> Answer:
        """Ask once. `headers` are whole lines. Raises WireError where no answer comes."""
        text = self._server.request(method, target, headers, body)
        connection = self._take() or await self._connect(seconds)
        try:
            return await connection.ask(text, seconds)
        finally:
            if connection.reusable and connection.context is self._server.context:
                self._keep(connection)
            else:
                connection.close()

    def use(self, context: ssl.SSLContext | None) -> None:
        """Connect with this context from now on."""
        if context is not self._server.context:
            self.close()
            self._server.context = context

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
        context = self._server.context
        return await self._server.connect(lambda: _Connection(context), seconds)


class _Connection(asyncio.Protocol):
    """One connection: one request at a time, its answer read as it comes."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._parser = ResponseParser()

    @property
    def reusable(self) -> bool:
        return self._transport is not None and self._waiter is None and not self._transport.is_closing()

    async def ask(self, request: bytes, seconds: float) -> Answer:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        limit = loop.call_later(seconds, self._give_up, seconds)
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
        try:
            if self._parser.feed(data):
                self._done()
        except ProtocolError as error:
            self._fail(WireError(f"invalid HTTP response: {error}", sent=True))

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        if self._waiter is not None and error is None and self._parser.end():
            self._done()
        else:
            self._fail(WireError(str(error or "it closed the connection"), sent=True))

    def _done(self) -> None:
        waiter, self._waiter = self._waiter, None
        parser = self._parser
        if not parser.keep_alive and self._transport is not None:
            self._transport.close()
        if waiter is not None and not waiter.done():
            body = b"".join(parser.body)
            waiter.set_result(Answer(parser.status, parser.retry_after, body, parser.warnings, parser.date))
        parser.reset()

    def _give_up(self, seconds: float) -> None:
        self._fail(WireError(f"no answer in {seconds:.3g} s", sent=True, slow=True))

    def _fail(self, error: WireError) -> None:
        waiter, self._waiter = self._waiter, None
        if self._transport is not None:
            self._transport.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
