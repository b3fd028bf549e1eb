"""Reading logs of any content: no line is lost or cut, and lines keep their order."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given, settings
from hypothesis import strategies as st

from vcjob.local.logs.index import ContainerIndex
from vcjob.local.logs.merger import Cursor, LogFile, LogMerger
from vcjob.local.logs.reader import line_start, read_all, tail_offset
from vcjob.report.logs import Chunk

LINES = st.lists(st.binary(max_size=12).map(lambda data: data.replace(b"\n", b"")), max_size=30)


@contextmanager
def log(content: bytes) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "main.0.out")
        with open(path, "wb") as file:
            file.write(content)
        yield path


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


#: Pieces of output in the order in which they were received: rank, stream, bytes, seconds since the piece before.
WRITES = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 1),
        st.sampled_from([b"", b"\n", b"word", b"a line\n", b"two\nlines\n", b"torn\nli"]),
        st.sampled_from([0.0, 0.001, 0.05, 0.3]),
    ),
    max_size=60,
)


class Writing:
    """The log files of three containers, written as their shims write them."""

    def __init__(self, folder: str) -> None:
        self.files = [
            _stream(os.path.join(folder, f"{rank}.{stream}"), rank, stream)
            for rank in range(3)
            for stream in ("out", "err")
        ]
        self._indexes = [
            ContainerIndex([file.path for file in self.files[2 * rank : 2 * rank + 2]]) for rank in range(3)
        ]
        self._now = 1000.0
        self.content = {file.path: b"" for file in self.files}
        for file in self.files:
            open(file.path, "wb").close()

    def write(self, rank: int, stream: int, data: bytes, pause: float) -> None:
        path = self.files[2 * rank + stream].path
        self._now += pause
        if data:
            with open(path, "ab") as file:
                file.write(data)
            self.content[path] += data
            os.utime(path, (self._now, self._now))
            self._indexes[rank].received(stream, len(self.content[path]), self._now)

    def check(self, chunks: list[Chunk]) -> None:
        """Every stream comes out as it was written, in whole lines."""
        assert all(chunk.data.endswith(b"\n") for chunk in chunks)
        for file in self.files:
            content = self.content[file.path]
            expected = content + (b"\n" if content and not content.endswith(b"\n") else b"")
            assert b"".join(chunk.data for chunk in chunks if chunk.origin == file) == expected


def _stream(path: str, rank: int, stream: str) -> LogFile:
    return LogFile(
        path=path, rank=rank, task="worker", index=rank, attempt=0,
        container="main", main=True, restart=0, stream=stream,
    )  # fmt: skip


@settings(deadline=None)
@given(WRITES)
def test_merging_loses_nothing_and_keeps_the_order_of_every_stream(
    writes: list[tuple[int, int, bytes, float]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writing = Writing(folder)
        for write in writes:
            writing.write(*write)
        writing.check(list(read_all(writing.files)))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3)), max_size=60), st.integers(1, 40), st.booleans()
)
def test_the_two_streams_of_a_container_come_in_the_order_in_which_they_were_received(
    steps: list[tuple[int, int]], budget: int, at_the_end: bool
) -> None:
    """Whether read as they grow (with any budget per call) or at the end, and however short the pauses are."""
    with tempfile.TemporaryDirectory() as folder:
        writing = Writing(folder)
        merger = LogMerger([Cursor(file) for file in writing.files])
        read: list[bytes] = []
        for number, (stream, calls) in enumerate(steps):
            writing.write(0, stream, b"%d\n" % number, 0.00001)
            for _ in range(0 if at_the_end else calls):
                read += [chunk.data for chunk in merger.read(budget=budget, follow=True)]
        read += [chunk.data for chunk in merger.read()]
        assert b"".join(read) == b"".join(b"%d\n" % number for number in range(len(steps)))


@settings(deadline=None)
@given(WRITES, st.integers(1, 30))
def test_following_growing_files_gives_whole_lines_and_all_of_them(
    writes: list[tuple[int, int, bytes, float]], budget: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writing = Writing(folder)
        merger = LogMerger([Cursor(file) for file in writing.files])
        chunks: list[Chunk] = []
        for write in writes:
            writing.write(*write)
            chunks += merger.read(budget=budget, follow=True)
        chunks += [*merger.read(), *merger.finish()]
        writing.check(chunks)
