"""Lines of a stream, however the network has cut them into pieces."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from vcjob.kube.api.lines import LineSplitter, lines_of


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_the_same_however_the_text_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    text = b"\n".join(b"x" * chance.choice((0, 1, 2, 50)) for _ in range(30)) + b"end"
    cuts = sorted(chance.sample(range(1, len(text)), 15))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed([piece])]
    (rest,) = splitter.feed([b"\n"])
    assert b"".join([*lines, rest]) == text + b"\n"
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in [*lines, rest])


def test_a_long_unfinished_line_is_searched_once() -> None:
    """Searching it once takes a fraction of a millisecond; once for each of its bytes would take minutes."""
    splitter, began = LineSplitter(), time.process_time()
    assert splitter.feed([b"line\n" + b"x" * 1_000_000]) == [b"line\n"]
    assert time.process_time() - began < 5
    assert splitter.feed([b"\n"]) == [b"x" * 1_000_000 + b"\n"]


def lines(pieces: list[bytes], longest: int) -> list[bytes]:
    async def received() -> AsyncIterator[list[bytes]]:
        for piece in pieces:
            yield [piece]

    async def collect() -> list[bytes]:
        return [line async for line in lines_of(received(), longest)]

    return asyncio.run(collect())


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_long_line_of_a_log_has_the_same_parts_however_the_text_is_cut(size: int) -> None:
    text = b"abcdefghij\n\nabcd\nab\nabcdefgh\nabcdef"
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    parts = [b"abcd", b"efgh", b"ij", b"", b"abcd", b"", b"ab", b"abcd", b"efgh", b"", b"abcd", b"ef"]
    assert lines(pieces, 4) == parts


def test_a_part_of_a_line_is_delivered_before_the_line_ends() -> None:
    async def first() -> bytes:
        async def received() -> AsyncIterator[list[bytes]]:
            yield [b"12%\r", b"13%\r"]
            await asyncio.Event().wait()

        return await anext(lines_of(received(), 8))

    assert asyncio.run(asyncio.wait_for(first(), 30)) == b"12%\r13%\r"
