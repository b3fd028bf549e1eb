"""HTTP/1.1 for a watch or a log: one answer that goes on for hours, on a connection of its own.

In a rush every event is a piece of its own, so a piece costs next to nothing here: it is put to the others,
and the reader, when it comes, gets all of them as one. No timer is moved for it, and nobody is woken twice.
"""

from __future__ import annotations

import asyncio
from typing import cast

from vcjob.kube.http.base import READ_BUFFER, Stream, WireError, keep_alive
from vcjob.kube.http.parser import ProtocolError, ResponseParser


class Streaming(asyncio.Protocol):
    """The chunks of one answer: an iterator that ends where the answer does.

    What has come before a failure is handed out before the failure is raised: it did happen.
    """

    def __init__(self, silence: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence = silence
        self._parser = ResponseParser()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._waiting = 0  # bytes that have come since the reader last took some
        self._paused = False
        self._over = False
        self._error: WireError | None = None

    async def ask(self, request: bytes) -> Stream:
        """Send the request and wait for the head of its answer."""
        if self._transport is not None:  # else it was lost at once, and the error says so
            self._heard_at = self._loop.time()
            self._listen()
            self._transport.write(request)
        while not self._parser.has_head:
            if self._error is not None:
                raise self._error
            await self._more()
        return Stream(self._parser.status, self._parser.retry_after, self)

    def close(self, error: WireError | None = None) -> None:
        """End it, now. Not by TLS's polite goodbye: that waits for the other's, among events that nobody reads."""
        if self._over:
            return
        self._over, self._error = True, error
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._wake()

    def __aiter__(self) -> Streaming:
        return self

    async def __anext__(self) -> bytes:
        parts = self._parser.body
        while not parts:
            if self._error is not None:
                raise self._error
            if self._over:
                raise StopAsyncIteration
            await self._more()
        if self._paused and self._waiting <= READ_BUFFER:
            # The reader was away: what the kernel has kept for it meanwhile goes with the first piece.
            self._resume()
            for _ in range(2):  # one turn of the loop to see it, one to read it
                await asyncio.sleep(0)
        taken = b"".join(parts)
        parts.clear()
        self._waiting = 0
        if self._paused:
            self._resume()
        return taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one by behaviour, not by class
        keep_alive(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._heard_at = self._loop.time()
        self._waiting += len(data)
        try:
            whole = self._parser.feed(data)
        except ProtocolError as error:
            self.close(WireError(f"invalid HTTP response: {error}", sent=True))
            return
        if whole:
            self.close()
        elif self._parser.body and (self._waiting > READ_BUFFER or self._waiter is None):
            self._pause()  # also for a reader that is busy: what comes meanwhile then comes as one
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if error is None and self._parser.end():
            self.close()
        else:
            self.close(WireError(str(error or "it closed the connection"), sent=True))
        self._transport = None

    async def _more(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pause(self) -> None:
        """The reader is behind: let the rest wait where it is, with the kernel and the server."""
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        self._paused = False
        self._heard_at = self._loop.time()  # till now it was us who did not listen
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _listen(self) -> None:
        """Be back when the silence would have lasted too long; what is heard till then moves no timer."""
        if self._silence is None:
            return
        now = self._loop.time()
        end = (now if self._paused else self._heard_at) + self._silence
        if end > now:
            self._timer = self._loop.call_at(end, self._listen)
        else:
            self.close(WireError(f"no answer in {self._silence:.3g} s", sent=True, slow=True))
