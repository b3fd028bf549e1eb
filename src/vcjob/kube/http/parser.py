"""Reads HTTP/1.1 responses from the pieces that the network delivers, with llhttp (`httptools`).

One `ResponseParser` belongs to one connection and reads one response at a time. It knows nothing of sockets
or of Kubernetes. llhttp has no limits and does not see the end of the connection, so this module bounds what
a response may hold besides its body and completes bodies that end with the connection.
"""

from __future__ import annotations

import httptools

#: Bytes of headers, interim responses, chunk extensions and trailers between two pieces of a body.
MAX_OVERHEAD = 2**16
_VERSIONS = ("1.1", "1.0")
_FRAMING = (b"content-length", b"transfer-encoding")
_USED_HEADERS = frozenset((*_FRAMING, b"date", b"retry-after", b"warning"))


class ProtocolError(ValueError):
    """The bytes received are not a valid HTTP/1.1 response; the message says why.

    The connection is closed then, and the caller gets a TransportError.
    """


class ResponseParser:
    """Parses the responses of one connection, one after the other.

    Call `feed` with what was received until it returns True, then read the fields and `reset` it for the next
    response. `body` holds the received pieces that the caller has not removed yet. The `on_*` methods are
    called by llhttp only.
    """

    __slots__ = (
        "_framed",
        "_llhttp",
        "_overhead",
        "body",
        "complete",
        "date",
        "has_head",
        "keep_alive",
        "on_body",
        "retry_after",
        "status",
        "warnings",
    )

    def __init__(self) -> None:
        self.body: list[bytes] = []
        self.on_body = self.body.append  # called for each piece, so no Python function stands in between
        self.reset()
        self._llhttp = httptools.HttpResponseParser(self)

    def reset(self) -> None:
        """Prepare for the next response on the same connection."""
        self.body.clear()
        self.has_head = self.complete = self.keep_alive = self._framed = False
        self.status = self._overhead = 0
        self.date = b""
        self.retry_after: str | None = None
        self.warnings: list[str] = []

    def feed(self, data: bytes | memoryview) -> bool:
        """Parse `data`. True: the response is complete. Raises ProtocolError.

        Bytes after a complete response are not parsed; `keep_alive` is then False.
        """
        pieces = len(self.body)
        try:
            self._llhttp.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self.complete:
                reason = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
                raise ProtocolError(str(reason)) from error
            self.keep_alive = False
        if self.complete:
            return True
        if len(self.body) > pieces:
            self._overhead = 0
        else:
            self._overhead += len(data)
            if self._overhead > MAX_OVERHEAD:
                raise ProtocolError("headers too long")
        return False

    def end(self) -> bool:
        """The connection has ended. True: so has the response, which has no length of its own."""
        if self.has_head and not self._framed:
            self.complete = True
        return self.complete

    def on_message_begin(self) -> None:
        if self.complete:
            raise ProtocolError("data after the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name not in _USED_HEADERS or self.has_head:  # a header after the head is a trailer
            return
        if name in _FRAMING:
            if name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise ProtocolError(f"unsupported Transfer-Encoding {value[:100]!r}")
            self._framed = True
        elif name == b"date":
            self.date = value.strip()
        elif name == b"retry-after":
            self.retry_after = value.strip().decode("latin-1")
        else:
            self.warnings.append(value.strip().decode("utf-8", "replace"))

    def on_headers_complete(self) -> None:
        status = self._llhttp.get_status_code()
        if status < 100 or status == 101:
            raise ProtocolError(f"unexpected status {status}")
        if self._llhttp.get_http_version() not in _VERSIONS:
            raise ProtocolError(f"unsupported version {self._llhttp.get_http_version()}")
        self.status = status
        self.has_head = status >= 200
        self.keep_alive = self._llhttp.should_keep_alive()

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.complete = True
        else:  # an interim response (1xx) says nothing about the one that follows
            self._framed = False
            self.warnings.clear()
            self.retry_after = None
