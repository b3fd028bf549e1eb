"""One long response, of a watch or a followed log, on a connection of its own.

`PooledClient` opens it. In a burst every event is a chunk of its own, so a chunk must cost little: it is appended
to a list, the reader takes the whole list, no timer is moved and the reader is woken once.
"""

from __future__ import annotations

import asyncio

from vcjob.kube.http.base import READ_BUFFER, StreamResponse, TransportError, timed_out
from vcjob.kube.http.connection import Connection


class StreamConnection(Connection):
    """An asynchronous iterator over the body of one response, which ends where the body ends.

    A failure is raised only after everything received before it was handed out: those events did happen.
    """

    def __init__(self, buffer: memoryview, idle_timeout: float | None) -> None:
        super().__init__(buffer)
        self._loop = asyncio.get_running_loop()
        self._idle_timeout = idle_timeout
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._received_at = 0.0
        self._unread = 0  # bytes received since the reader last took some
        self._paused = False
        self._closed = False
        self._error: TransportError | None = None

    async def request(self, text: bytes) -> StreamResponse:
        """Send the request and wait for the head of its response."""
        if self._transport is not None:  # else the connection is lost already, and `_error` says why
            self._received_at = self._loop.time()
            self._check_idle()
            self._transport.write(text)
        while not self._parser.has_head:
            if self._error is not None:
                raise self._error
            await self._wait()
        return StreamResponse(self._parser.status, self._parser.retry_after, self)

    def close(self, error: TransportError | None = None) -> None:
        """End the stream now. TLS's closing handshake would wait for the server, behind events nobody reads."""
        if self._closed:
            return
        self._closed, self._error = True, error
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    fail = close

    def __aiter__(self) -> StreamConnection:
        return self

    async def __anext__(self) -> list[bytes]:
        body = self._parser.body
        while not body:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise StopAsyncIteration
            await self._wait()
        if self._paused and self._unread <= READ_BUFFER:
            # The reader was busy: deliver what the kernel has kept meanwhile together with the first piece.
            self._resume()
            for _ in range(2):  # the loop needs one pass to notice the data and one to read it
                await asyncio.sleep(0)
        taken = body.copy()
        body.clear()
        self._unread = 0
        if self._paused:
            self._resume()
        return taken

    def received(self, count: int, complete: bool) -> None:
        if self._closed:
            return
        self._received_at = self._loop.time()
        self._unread += count
        if complete:
            self.close()
        elif self._parser.body and (
            self._unread > READ_BUFFER or (self._waiter is None and self._unread > count)
        ):
            # Also for a reader that is busy: from the second piece on, what arrives meanwhile is read at once. A single
            # piece costs less without.
            self._pause()
        self._wake()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        """The reader is behind: leave the rest to the kernel and the server."""
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        self._received_at = self._loop.time()  # the silence so far was ours
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _check_idle(self) -> None:
        """Fail if nothing was received for too long, else check again when that could be the case."""
        if self._idle_timeout is None:
            return
        now = self._loop.time()
        end = (now if self._paused else self._received_at) + self._idle_timeout
        if end > now:
            self._timer = self._loop.call_at(end, self._check_idle)
        else:
            self.close(timed_out(self._idle_timeout, sent=True))
