"""What the connections of the pool and of the streams have in common: received bytes go to a ResponseParser.

asyncio calls the methods of `Connection`. It reads into the endpoint's shared buffer, so that no read allocates
memory. It knows nothing of requests, time limits or readers: its subclasses do.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import cast

from vcjob.kube.http.base import TransportError, enable_keepalive
from vcjob.kube.http.parser import ProtocolError, ResponseParser


class Connection(asyncio.BufferedProtocol):
    """One open connection. A broken connection or an invalid response ends in `fail`.

    The pool and the streams subclass it. It parses what it receives and passes it on, and knows no reader.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._parser = ResponseParser()
        self._transport: asyncio.Transport | None = None

    @abstractmethod
    def received(self, count: int, complete: bool) -> None:
        """`count` bytes were parsed. `complete`: they end the response."""

    @abstractmethod
    def fail(self, error: TransportError) -> None:
        """No (more) response will be received."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's class does not inherit from asyncio's
        enable_keepalive(transport.get_extra_info("socket"))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            complete = self._parser.feed(self._buffer[:nbytes])
        except ProtocolError as error:
            self.fail(TransportError(f"invalid HTTP response: {error}", sent=True))
        else:
            self.received(nbytes, complete)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if exc is None and self._parser.end():
            self.received(0, True)
        else:
            self.fail(TransportError(str(exc or "the server closed the connection"), sent=True))
