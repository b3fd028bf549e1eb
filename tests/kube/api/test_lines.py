"""Lines of a stream, however the network has cut them into pieces."""

from __future__ import annotations

import random
import time

import pytest

from vcjob.kube.api.lines import LineSplitter


@pytest.mark.parametrize("seed", range(20))
def test_lines_are_the_same_however_the_text_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    text = b"\n".join(b"x" * chance.choice((0, 1, 2, 50)) for _ in range(30)) + b"end"
    cuts = sorted(chance.sample(range(1, len(text)), 15))
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = LineSplitter()
    lines = [line for piece in pieces for line in splitter.feed([piece])]
    assert b"".join(lines) + splitter.rest() == text
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)
    assert b"\n" not in splitter.rest()


def test_a_long_unfinished_line_is_searched_once() -> None:
    """Searching it once takes a fraction of a millisecond; once for each of its bytes would take minutes."""
    splitter, began = LineSplitter(), time.process_time()
    assert splitter.feed([b"line\n" + b"x" * 1_000_000]) == [b"line\n"]
    assert time.process_time() - began < 5
    assert len(splitter.rest()) == 1_000_000
