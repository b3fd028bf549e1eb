"""Splits a stream of chunks into lines of any length. Used for logs and watches."""

from __future__ import annotations

from collections.abc import AsyncIterator


class LineSplitter:
    """Collects chunks and returns complete lines; `rest` is what follows the last line end."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        lines = chunk.split(b"\n")
        tail = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
        if tail:
            self._parts.append(tail)
        return lines

    def rest(self) -> bytes:
        return b"".join(self._parts)


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines of a text; the last one need not have a line end."""
    splitter = LineSplitter()
    async for chunk in chunks:
        for line in splitter.feed(chunk):
            yield line
    if rest := splitter.rest():
        yield rest
