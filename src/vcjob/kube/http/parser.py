"""One answer as it comes: its head, then its body, in whatever pieces the network hands over."""

from __future__ import annotations

_MOST_HEAD = 2**16
_MOST_LINE = 2**12  # of a chunk's size: a few digits, and what a load balancer may add

#: Of the headers that are asked for; an API server sends as many others.
_FIRST_LETTERS = b"CcDdRrTtWw"


class Incoming:
    """Takes an answer apart. `parts`: what has come of the body and nobody has taken yet."""

    __slots__ = ("_left", "_trailing", "head", "parts", "rest")

    def __init__(self) -> None:
        self.head: Head | None = None
        self.parts: list[bytes] = []
        self.rest = b""  # of the last piece, for the next; after the end: what belongs to no answer
        self._left = 0  # of the body, or of the present chunk with the line end after it
        self._trailing = False  # the last chunk is over

    @property
    def until_close(self) -> bool:
        """Whether the end of the connection is the end of the answer, too."""
        return self.head is not None and self.head.until_close

    def feed(self, data: bytes) -> bool:
        """Take what has come. True: the answer is whole. Raises ValueError where it is no HTTP."""
        if self.rest:
            data, self.rest = self.rest + data, b""
        if self.head is None:
            data = self._take_head(data)
        head = self.head
        if head is None:
            return False
        if head.chunked:
            return self._take_chunks(data)
        if head.until_close:
            if data:
                self.parts.append(data)
            return False
        if len(data) > self._left:
            data, self.rest = data[: self._left], data[self._left :]
        if data:
            self.parts.append(data)
            self._left -= len(data)
        return self._left == 0

    def _take_head(self, data: bytes) -> bytes:
        """Read the head, if it is whole; what comes after it is given back."""
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head = Head(data[:end])
            data = data[end + 4 :]
            if head.status >= 200:  # else it only says that more is to come
                self.head = head
                self._left = head.length
                return data
        if len(data) > _MOST_HEAD:
            raise ValueError
        self.rest = data
        return b""

    def _take_chunks(self, data: bytes) -> bool:
        """Lists are long, and so may be a chunk: what has come of it counts before it is whole."""
        at, end = 0, len(data)
        while True:
            if self._left:
                stop = at + self._left - 2
                if stop + 2 > end:
                    stop = min(stop, end)
                    if stop > at:
                        self.parts.append(data[at:stop])
                        self._left -= stop - at
                    self.rest = data[stop:]
                    return False
                if not data.startswith(b"\r\n", stop):
                    raise ValueError
                if stop > at:
                    self.parts.append(data[at:stop])
                at, self._left = stop + 2, 0
            stop = data.find(b"\r\n", at, at + _MOST_LINE)
            if stop < 0:
                if end - at >= _MOST_LINE:
                    raise ValueError
                self.rest = data[at:]
                return False
            line, at = data[at:stop], stop + 2
            if not self._trailing:
                size = int(line.partition(b";")[0], 16)
                if size < 0:
                    raise ValueError
                if size:
                    self._left = size + 2
                else:
                    self._trailing = True
            elif not line:
                self.rest = data[at:]
                return True


class Head:
    """Status and headers, as far as anybody here asks for them."""

    __slots__ = ("chunked", "date", "last", "length", "retry_after", "status", "until_close", "warnings")

    def __init__(self, text: bytes) -> None:
        lines = text.split(b"\r\n")
        version, status, *_ = lines[0].split(b" ", 2)
        if not version.startswith(b"HTTP/1."):
            raise ValueError
        self.status = int(status)
        self.last = version == b"HTTP/1.0"
        self.chunked = False
        self.retry_after: str | None = None
        self.date = b""
        self.warnings: list[str] = []
        length: int | None = None
        for line in lines[1:]:
            if line[:1] not in _FIRST_LETTERS:
                continue
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
        if length is not None and length < 0:
            raise ValueError
        self.length = length or 0
        self.until_close = length is None and not self.chunked
