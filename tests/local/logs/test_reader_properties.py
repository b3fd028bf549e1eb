"""Reading logs, for any content: nothing is lost, nothing is torn, and the last lines are the last lines."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from vcjob.local.logs.follower import Tail
from vcjob.local.logs.index import LogIndex
from vcjob.local.logs.reader import LogFile, line_start, read_all, tail_offset

LINES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=30)
#: A log as it comes into being: pieces that need not end with a line.
PIECES = st.lists(st.binary(max_size=20), max_size=12)


@contextmanager
def log(content: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main.0.out")
        with open(path, "wb") as file:
            file.write(content)
        yield path


def _file(path: str, rank: int = 0) -> LogFile:
    return LogFile(
        path=path, rank=rank, task="worker", index=rank, attempt=0, container="main", main=True, restart=0
    )


@given(LINES, st.booleans(), st.integers(0, 40))
def test_the_tail_of_a_file_is_its_last_lines(lines: list[bytes], ended: bool, count: int) -> None:
    content = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    with log(content) as path, open(path, "rb") as file:
        offset = tail_offset(file.fileno(), len(content), count)
        whole = content.split(b"\n")
        whole = whole[:-1] if whole[-1] == b"" else whole
        assert content[offset:].removesuffix(b"\n") == b"\n".join(whole[-count:] if count else [])


@given(LINES, st.integers(0, 400))
def test_a_line_begins_after_the_line_break_before_it(lines: list[bytes], offset: int) -> None:
    content = b"\n".join(lines)
    offset = min(offset, len(content))
    with log(content) as path, open(path, "rb") as file:
        assert line_start(file.fileno(), offset) == content[:offset].rfind(b"\n") + 1


@settings(deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_merging_loses_nothing_and_keeps_every_file_s_order(files: list[list[bytes]], chance: object) -> None:
    """Files that grow in any rhythm, looked at now and then: each comes out as it was written."""
    with tempfile.TemporaryDirectory() as folder:
        index, now = LogIndex(), 0.0
        paths = [os.path.join(folder, f"{number}.out") for number in range(len(files))]
        for path in paths:
            open(path, "wb").close()
        todo = [(number, piece) for number, pieces in enumerate(files) for piece in pieces]
        order = sorted(range(len(todo)), key=lambda place: (chance.random(), place))  # type: ignore[attr-defined]
        queues = {number: iter(pieces) for number, pieces in enumerate(files)}
        for place in order:
            number = todo[place][0]
            with open(paths[number], "ab") as file:
                file.write(next(queues[number]))
            now += chance.random()  # type: ignore[attr-defined]
            index.sample(paths, now)
        chunks = list(read_all([_file(path, rank) for rank, path in enumerate(paths)]))
        for rank, pieces in enumerate(files):
            content = b"".join(pieces)
            expected = content + (b"\n" if content and not content.endswith(b"\n") else b"")
            assert b"".join(chunk.data for chunk in chunks if chunk.origin.rank == rank) == expected
        assert all(chunk.data.endswith(b"\n") for chunk in chunks)


@given(PIECES)
def test_following_a_growing_file_gives_whole_lines_and_all_of_them(pieces: list[bytes]) -> None:
    with log(b"") as path:
        tail, seen = Tail(_file(path)), b""
        for piece in pieces:
            with open(path, "ab") as file:
                file.write(piece)
            chunk = tail.read()
            if chunk is not None:
                assert chunk.data.endswith(b"\n")
                seen += chunk.data
        while (chunk := tail.read(last=True)) is not None:
            seen += chunk.data
        tail.close()
        content = b"".join(pieces)
        assert seen == content + (b"\n" if content and not content.endswith(b"\n") else b"")
