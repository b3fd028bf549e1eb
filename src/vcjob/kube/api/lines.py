"""Splits received bytes into lines: of any length for watches, of a bounded length for logs.

Watches use `LineSplitter`, where a line is an event; the client's logs use `lines_of`. Neither decodes a line.
Nothing here fails: a stream that is cut off ends with an unfinished line.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from vcjob.kube.http.base import Pieces


class LineSplitter:
    """Collects pieces and returns complete lines with their line ends; it keeps what follows the last one.

    An API server sends every event of a watch as one piece that is one line: such a line is not copied.
    """

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, pieces: list[bytes]) -> list[bytes]:
        lines: list[bytes] = []
        for piece in pieces:
            end = piece.find(b"\n") + 1
            if end == len(piece) and not self._parts:
                lines.append(piece)
            elif not end:
                self._parts.append(piece)
            else:
                lines.append(b"".join([*self._parts, piece[:end]]))
                while next_end := piece.find(b"\n", end) + 1:
                    lines.append(piece[end:next_end])
                    end = next_end
                self._parts = [piece[end:]] if end < len(piece) else []
        return lines


async def lines_of(received: Pieces, longest: int) -> AsyncIterator[bytes]:
    """The lines of a text without their line ends; the last one need not have one.

    A line of `longest` bytes or more comes in parts of that size, so that memory is bounded; a shorter part, which may
    be empty, ends it. The parts depend on the text alone, not on its pieces.
    """
    begun = bytearray()
    async for pieces in received:
        for piece in pieces:
            start = 0
            while start < len(piece):
                limit = start + longest - len(begun)
                end = piece.find(b"\n", start, limit)
                begun += piece[start : limit if end < 0 else end]
                start = limit if end < 0 else end + 1
                if end >= 0 or len(begun) == longest:
                    yield bytes(begun)
                    begun.clear()
    if begun:
        yield bytes(begun)
