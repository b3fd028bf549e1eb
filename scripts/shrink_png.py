"""Makes a PNG of a page small: at most 256 colours, which is enough for text and flat areas, and the best compression.

Reads and writes what Chromium writes: 8 bits of red, green and blue, with or without alpha, not interlaced.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256
Colour = tuple[int, int, int]


def shrink(file: Path) -> None:
    """Replace the file."""
    width, height, pixels = read(file.read_bytes())
    palette = [colour for colour, _ in Counter(pixels).most_common(COLOURS)]

    @cache
    def nearest(colour: Colour) -> int:
        return min(range(len(palette)), key=lambda each: distance(palette[each], colour))

    rows = (bytes(map(nearest, pixels[start : start + width])) for start in range(0, width * height, width))
    data = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", bytes(sum(palette, ()))), (b"IDAT", data), (b"IEND", b""))
    file.write_bytes(SIGNATURE + b"".join(chunk(kind, content) for kind, content in parts))


def distance(one: Colour, other: Colour) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += length + 12


def read(png: bytes) -> tuple[int, int, list[Colour]]:
    """Width, height and the colours of all pixels."""
    found = list(chunks(png))
    width, height, bits, kind, *_, interlaced = struct.unpack(">IIBBBBB", found[0][1])
    if (bits, interlaced) != (8, 0) or kind not in (2, 6):
        raise ValueError("not a PNG with 8 bits of red, green and blue")
    size = 3 if kind == 2 else 4
    raw = zlib.decompress(b"".join(content for name, content in found if name == b"IDAT"))
    pixels: list[Colour] = []
    above = bytearray(width * size)
    for start in range(0, len(raw), width * size + 1):
        above = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + width * size]), above, size)
        pixels += zip(above[::size], above[1::size], above[2::size], strict=True)
    return width, height, pixels


def unfiltered(kind: int, row: bytearray, above: bytearray, size: int) -> bytearray:
    """The row as it was before the filter of the PNG standard that its first byte names."""
    for place, value in enumerate(row):
        left = row[place - size] if place >= size else 0
        corner = above[place - size] if place >= size else 0
        guess = (0, left, above[place], (left + above[place]) // 2, paeth(left, above[place], corner))[kind]
        row[place] = (value + guess) & 255
    return row


def paeth(left: int, above: int, corner: int) -> int:
    near = left + above - corner
    return min((left, above, corner), key=lambda each: abs(near - each))
