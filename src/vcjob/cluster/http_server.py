"""An HTTP server for the controller's process with bounds on connections, on time and on memory.

It serves an aiohttp application to clients that nobody vouches for: every pod of a cluster can connect. `webhook` and
`process` start it. A client that sends slowly or not at all loses its connection when its time is up, or earlier when
the server is full. Complete requests have three quarters of it, and no address has more of them than are left for the
others; however many addresses have requests that wait, those of the address that has most make room for one that has
few: no client can keep others out. Fails with `BackendError` where the address cannot be bound.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import cast

import msgspec
from aiohttp import web

from vcjob.cluster.fair_share import FairShare
from vcjob.errors import BackendError

log = logging.getLogger(__name__)
_SHUTDOWN_SECONDS = 5.0
_BACKLOG = 128
_ACCEPT_RETRY_SECONDS = 0.05
#: Errors of accept that mean that file descriptors or memory have run out.
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Limits(msgspec.Struct, frozen=True):
    """How much one server takes in at the same time, and how long it waits for each part of a request.

    Passed to `HttpServer`, so that no client can use up the memory or the connections of the process.
    """

    connections: int = 256
    #: Bytes of request bodies in memory, of all connections together.
    body_bytes: int = 48 * 1024 * 1024
    handshake_seconds: float = 5.0
    head_seconds: float = 5.0
    body_seconds: float = 5.0
    #: How long a connection stays open without a request.
    idle_seconds: float = 75.0


class Connection(asyncio.Protocol):
    """One client: passes everything on to aiohttp's protocol, and keeps the deadline of the current step.

    `busy` from the moment a request is complete until its response was produced: then it is never dropped, and what it
    holds counts even if the client disconnects.
    """

    def __init__(self, server: HttpServer, address: str, inner: asyncio.Protocol) -> None:
        self.address = address
        self.busy = False
        self.body_bytes = 0
        self.since = asyncio.get_running_loop().time()
        self.handshake: asyncio.Task[None] | None = None
        #: Of a complete request that waits for its turn.
        self._patience: asyncio.Timeout | None = None
        self._server = server
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._idle = False
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of asyncio's
        self._inner.connection_made(transport)
        self._expect_within(self._server.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        if self._idle:
            self._idle = False
            self._expect_within(self._server.limits.head_seconds)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._server.forget(self)
        self._cancel_timer()
        self._inner.connection_lost(error)

    def begin_request(self) -> None:
        """The head of a request is complete."""
        self._idle = False
        self._cancel_timer()
        self.since = asyncio.get_running_loop().time()

    def complete_request(self) -> None:
        """The request is complete; raises the HTTP error that refuses it where its address has many of them."""
        if self.busy:
            return  # an empty body that a handler reads was complete with its head
        if not self._server.admit(self):
            raise _too_many()
        self.busy = True

    async def wait_for(self, turn: Awaitable[None]) -> None:
        """Wait for a turn; raises the HTTP error that refuses the request where another address needs its place before."""
        try:
            async with asyncio.timeout(None) as self._patience:
                self._server.waiting[self] = None
                await turn
        except TimeoutError:
            raise _too_many() from None
        finally:
            self._server.waiting.pop(self, None)
        if not self.busy:  # it made room in the moment in which its turn came
            raise _too_many()

    def make_room(self) -> None:
        """Refuse the request, which waits for its turn."""
        assert self._patience is not None
        del self._server.waiting[self]
        self._patience.reschedule(asyncio.get_running_loop().time())
        self.busy = False
        self._server.release(self)

    def end_request(self, *, body_was_read: bool) -> None:
        """The response was produced. A client that is still sending a refused body gets no second request."""
        if self.busy:
            self.busy = False
            self._server.release(self)
        self._server.hold(self, -self.body_bytes)
        self._idle = body_was_read
        limits = self._server.limits
        self._expect_within(limits.idle_seconds if body_was_read else limits.body_seconds)

    async def read_body(self, request: web.Request, largest: int) -> bytes:
        """The whole body, counted while it arrives; raises the HTTP error that refuses it."""
        limits = self._server.limits
        if (request.content_length or 0) > largest:
            raise web.HTTPRequestEntityTooLarge(largest, request.content_length or 0)
        body = bytearray()
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > largest:
                        raise web.HTTPRequestEntityTooLarge(largest, len(body))
                    if not self._server.hold(self, len(chunk)):
                        raise web.HTTPServiceUnavailable(reason="too many requests at the same time")
        except TimeoutError:
            raise web.HTTPRequestTimeout(
                reason=f"the body did not arrive within {limits.body_seconds:g} s"
            ) from None
        self.complete_request()
        return bytes(body)

    def drop(self) -> None:
        """Close the connection now, whatever it was doing."""
        self._server.forget(self)
        self._cancel_timer()
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def _expect_within(self, seconds: float) -> None:
        self._cancel_timer()
        if not self.lost:
            loop = asyncio.get_running_loop()
            self.since = loop.time()
            self._timer = loop.call_later(seconds, self.drop)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class HttpServer:
    """Accepts connections for an application. `await start(...)`, and `await close()` after the last response.

    When it is full it drops a connection without a complete request: the oldest one of the address that has most.
    """

    def __init__(self, app: web.Application, limits: Limits = Limits()) -> None:  # noqa: B008 - immutable
        self.limits = limits
        self.body_bytes = 0
        # The rest is for clients that still send: of these, the slow ones of the address with most make room.
        self._requests = FairShare(limits.connections * 3 // 4)
        self._complete_bytes = FairShare(limits.body_bytes * 3 // 4)
        app.middlewares.insert(0, _tracked)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=_SHUTDOWN_SECONDS,
            keepalive_timeout=limits.idle_seconds,
        )
        self._open: dict[Connection, None] = {}
        #: Complete requests that wait for their turn, also those whose client is gone.
        self.waiting: dict[Connection, None] = {}
        self._accepting: asyncio.Task[None] | None = None
        self.port = 0

    @property
    def connections(self) -> int:
        return len(self._open)

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
        """Bind and listen; an empty `host` is every address."""
        try:
            listener = _bind(host, port)
        except OSError as error:
            raise BackendError(
                f"cannot listen on {host or '*'}:{port}: {error.strerror or error}",
                hint="another program uses the port, or the address does not belong to this machine",
            ) from error
        await self._runner.setup()
        self.port = listener.getsockname()[1]
        self._accepting = asyncio.create_task(self._accept(listener, context))

    async def close(self) -> None:
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        for connection in list(self._open):
            if connection.handshake is not None:
                connection.handshake.cancel()
        await self._runner.cleanup()

    def hold(self, connection: Connection, count: int) -> bool:
        """Count `count` more bytes of a body; False where that is too much even after dropping slow senders."""
        connection.body_bytes += count
        self.body_bytes += count
        while self.body_bytes > self.limits.body_bytes:
            if not self._drop_one(connection, lambda other: other.body_bytes > 0):
                return False
        return True

    def admit(self, connection: Connection) -> bool:
        """Count a complete request; False where its address has its share already."""
        address, size = connection.address, connection.body_bytes
        requests = size_of_them = 0  # that made room
        while True:
            if not self._requests.take(address, 1, freed=requests):
                short, count = self._requests, 1
            elif not self._complete_bytes.take(address, size, freed=size_of_them):
                self._requests.give_back(address, 1)
                short, count = self._complete_bytes, size
            else:
                return True
            most = max(self.waiting, key=lambda each: short.held(each.address), default=None)
            if most is None or short.held(most.address) <= short.held(address) + count:
                return False
            requests, size_of_them = requests + 1, size_of_them + most.body_bytes
            most.make_room()

    def release(self, connection: Connection) -> None:
        self._requests.give_back(connection.address, 1)
        self._complete_bytes.give_back(connection.address, connection.body_bytes)

    def forget(self, connection: Connection) -> None:
        """The client is gone. A request that it had completed is still in memory until it ends."""
        self._open.pop(connection, None)
        if not connection.busy:
            self.hold(connection, -connection.body_bytes)

    async def _accept(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        factory = self._runner.server
        assert factory is not None
        with listener:
            while True:
                try:
                    accepted, peer = await loop.sock_accept(listener)
                except OSError as error:
                    if error.errno in _EXHAUSTED:
                        log.warning("cannot accept a connection: %s", error)
                        self._drop_one()
                    await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                    continue
                if len(self._open) >= self.limits.connections and not self._drop_one():
                    accepted.close()  # every connection is busy with a complete request
                    continue
                connection = Connection(self, str(peer[0]), factory())
                self._open[connection] = None
                connection.handshake = asyncio.create_task(self._connect(connection, accepted, context))

    async def _connect(
        self, connection: Connection, accepted: socket.socket, context: ssl.SSLContext | None
    ) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=context,
                ssl_handshake_timeout=self.limits.handshake_seconds if context else None,
            )
        except (OSError, asyncio.CancelledError):  # no TLS client, or dropped
            self.forget(connection)
            accepted.close()
        finally:
            connection.handshake = None

    def _drop_one(
        self,
        keep: Connection | None = None,
        counts: Callable[[Connection], bool] = lambda _: True,
    ) -> bool:
        waiting = [each for each in self._open if not each.busy and each is not keep and counts(each)]
        if not waiting:
            return False
        held = Counter(each.address for each in waiting)
        min(waiting, key=lambda each: (-held[each.address], each.since)).drop()
        return True


def _too_many() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(reason="too many requests of this client at the same time")


def connection_of(request: web.Request) -> Connection:
    """The connection on which a request came. Raises `ConnectionResetError` where it has just been lost."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(connection, Connection):
        raise ConnectionResetError
    return connection


@web.middleware
async def _tracked(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    connection = connection_of(request)
    connection.begin_request()
    try:
        if not request.can_read_body:
            connection.complete_request()
        return await handler(request)
    finally:
        connection.end_request(body_was_read=not request.can_read_body)


def _bind(host: str, port: int) -> socket.socket:
    """A listening socket; an empty host is every IPv4 address, and every IPv6 address where the machine has them."""
    if not host and socket.has_dualstack_ipv6():
        listener = socket.create_server(
            ("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG
        )
    else:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    listener.setblocking(False)
    return listener
