"""`scripts/shrink_png.py`: what it reads, and that a picture with few colours stays as it is."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from scripts.shrink_png import SIGNATURE, chunk, chunks, read, shrink

WHITE, BLACK, RED = (255, 255, 255), (0, 0, 0), (200, 10, 10)
ROWS = [[WHITE, BLACK, RED, WHITE], [RED, RED, BLACK, WHITE], [BLACK, WHITE, WHITE, RED]]


def png(kind: int, lines: list[bytes], size: tuple[int, int]) -> bytes:
    header = struct.pack(">IIBBBBB", *size, 8, kind, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"".join(lines))), (b"IEND", b""))
    return SIGNATURE + b"".join(chunk(*part) for part in parts)


def filtered(number: int) -> list[bytes]:
    """The rows after a filter of the PNG standard: 0 none, 1 left, 2 above, 3 the mean of both."""
    lines, above = [], bytes(12)
    for row in ROWS:
        plain = b"".join(bytes(colour) for colour in row)
        left = bytes(3) + plain[:-3]
        guesses = (bytes(12), left, above, bytes((a + b) // 2 for a, b in zip(left, above, strict=True)))
        line = bytes((value - guess) & 255 for value, guess in zip(plain, guesses[number], strict=True))
        lines.append(bytes([number]) + line)
        above = plain
    return lines


@pytest.mark.parametrize("number", range(4))
def test_every_filter_is_undone(number: int) -> None:
    assert read(png(2, filtered(number), (4, 3))) == (4, 3, [each for row in ROWS for each in row])


def test_alpha_is_left_out() -> None:
    line = b"\0" + bytes((*WHITE, 255, *RED, 255))
    assert read(png(6, [line], (2, 1))) == (2, 1, [WHITE, RED])


def test_few_colours_stay_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(png(2, filtered(1), (4, 3)))
    shrink(file)
    parts = dict(chunks(file.read_bytes()))
    palette = [tuple(parts[b"PLTE"][place : place + 3]) for place in range(0, len(parts[b"PLTE"]), 3)]
    lines = zlib.decompress(parts[b"IDAT"])
    rows = [[palette[number] for number in lines[start + 1 : start + 5]] for start in range(0, len(lines), 5)]
    assert rows == ROWS


def test_another_kind_of_picture_is_refused() -> None:
    with pytest.raises(ValueError, match="8 bits"):
        read(png(3, [b"\0\0"], (1, 1)))
