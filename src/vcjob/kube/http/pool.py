"""Kept-alive connections for many small requests to one server.

`PooledClient` uses it. A request is one write and a response one parse: a controller sends little else, and a
general HTTP library spends more than half of the CPU time on features that an API server never uses.
"""

from __future__ import annotations

import asyncio
import ssl

from vcjob.kube.http.base import HttpRequest, Response, TransportError, timed_out
from vcjob.kube.http.connection import Connection
from vcjob.kube.http.endpoint import Endpoint

#: An idle connection is closed after this: each one costs as much memory as a dozen cached pods.
IDLE_SECONDS = 20.0


class ConnectionPool:
    """The connections to one endpoint: as many as there are requests in flight, reused when idle.

    `PooledClient` owns it. It sends each request once; a request on an idle connection that the server has closed
    meanwhile fails, and the transport repeats it if that is safe.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._idle: list[_PooledConnection] = []
        self._sweeper: asyncio.TimerHandle | None = None

    async def request(self, request: HttpRequest, headers: bytes) -> Response:
        """Send one request. `headers` are complete lines. Raises TransportError."""
        text = self._endpoint.request(request, headers)
        connection = self._take_idle() or await self._connect(request.timeout)
        try:
            return await connection.request(text, request.timeout)
        finally:
            if connection.reusable and connection.context is self._endpoint.context:
                self._keep(connection)
            else:
                connection.close()

    def use(self, context: ssl.SSLContext | None) -> None:
        """Connect with this TLS context from now on; connections of another one are not reused."""
        if context is not self._endpoint.context:
            self.close()
            self._endpoint.context = context

    def close(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def _take_idle(self) -> _PooledConnection | None:
        while self._idle:
            connection = (
                self._idle.pop()
            )  # the latest, so that those no longer needed become old and are closed
            if connection.reusable:
                return connection
        return None

    def _keep(self, connection: _PooledConnection) -> None:
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

    async def _connect(self, seconds: float) -> _PooledConnection:
        endpoint = self._endpoint
        context = endpoint.context
        return await endpoint.connect(lambda: _PooledConnection(endpoint.buffer, context), seconds)


class _PooledConnection(Connection):
    """Carries one request at a time.

    Its timer is not moved for every request: when it fires, it is set again to the deadline that counts then.
    """

    def __init__(self, buffer: memoryview, context: ssl.SSLContext | None) -> None:
        super().__init__(buffer)
        self.context = context
        self.idle_since = 0.0
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[Response] | None = None
        self._seconds = self._deadline = self._timer_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def reusable(self) -> bool:
        return self._transport is not None and self._waiter is None and not self._transport.is_closing()

    async def request(self, text: bytes, seconds: float) -> Response:
        assert self._transport is not None
        self._waiter = self._loop.create_future()
        self._seconds, self._deadline = seconds, self._loop.time() + seconds
        if self._timer is None or self._deadline < self._timer_at:
            self._set_timer()
        self._transport.write(text)
        try:
            return await self._waiter
        finally:
            if self._waiter is not None:  # cancelled: the response would be read as the next one's
                self.close()

    def close(self) -> None:
        self._waiter = None
        self._clear_timer()
        if self._transport is not None:
            self._transport.close()

    def received(self, count: int, complete: bool) -> None:
        waiter = self._waiter
        if waiter is None:
            self.close()  # bytes that no request has caused
        elif complete:
            self._waiter = None
            parser = self._parser
            if not parser.keep_alive:
                self.close()
            if not waiter.done():
                body = b"".join(parser.body)
                waiter.set_result(
                    Response(parser.status, parser.retry_after, body, parser.warnings, parser.date)
                )
            parser.reset()

    def fail(self, error: TransportError) -> None:
        waiter, self._waiter = self._waiter, None
        self._clear_timer()
        if self._transport is not None:
            self._transport.abort()
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)

    def _set_timer(self) -> None:
        self._clear_timer()
        self._timer_at = self._deadline
        self._timer = self._loop.call_at(self._deadline, self._check_deadline)

    def _clear_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_deadline(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._deadline > self._timer_at:  # of a later request than the one the timer was set for
            self._set_timer()
        else:
            self.fail(timed_out(self._seconds, sent=True))
