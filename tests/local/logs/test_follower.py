"""Following a run: long lines, many restarts, and where to begin."""

from __future__ import annotations

import os
import resource
import tracemalloc
from pathlib import Path

import pytest

from tests.local.conftest import Start, job, python, task, texts
from vcjob.local.logs import merger, retention
from vcjob.local.logs.follower import Follower
from vcjob.local.logs.index import ContainerIndex
from vcjob.local.logs.merger import LONGEST_LINE, Cursor, LogFile, LogMerger
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import LogFilter
from vcjob.report.podstate import ContainerState, Ended, PodState

PROGRESS = """
import sys
for number in range(40000):
    sys.stderr.write(f'\\rtraining: {number:>6} of 40000 |' + '#' * 40)
raise SystemExit('the loss is NaN')
"""


def _file(path: Path) -> LogFile:
    return LogFile(
        path=str(path), rank=0, task="a", index=0, attempt=0, container="main", main=True, restart=0
    )


def test_a_progress_bar_without_line_breaks_does_not_hide_what_follows(start: Start) -> None:
    handle = start(job(task("a", python(PROGRESS))))
    (line,) = texts(handle, follow=True)
    assert len(line) > 2 << 20 and line.endswith("the loss is NaN")
    assert texts(handle) == [line]


@pytest.mark.slow
def test_all_lines_after_a_line_of_30_megabytes_are_followed(start: Start) -> None:
    handle = start(
        job(task("a", python("import sys\nsys.stdout.write('x' * 30_000_000 + '\\nend\\n')\nprint('last')")))
    )
    follower, data = handle.follow(), b""
    while not follower.ended:
        data += b"".join(chunk.data for chunk in follower.poll())
        follower.wait()
    follower.close()
    assert data.replace(b"\n", b"") == b"x" * 30_000_000 + b"endlast"
    assert [len(line) for line in data.splitlines()] == [*[LONGEST_LINE] * 3, 30_000_000 % LONGEST_LINE, 3, 4]


def test_a_line_that_is_cut_right_before_its_end_is_not_followed_by_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * LONGEST_LINE + b"\n" + b"y\n")
    read = b"".join(chunk.data for chunk in LogMerger([Cursor(_file(path))]).read())
    assert [len(line) for line in read.splitlines()] == [LONGEST_LINE, 1]


def test_an_unfinished_line_is_read_once_and_held_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = tmp_path / "log", 0
    real = retention.read_next

    def counted(descriptor: int, offset: int, most: int) -> tuple[bytes, int]:
        nonlocal read
        data, after = real(descriptor, offset, most)
        read += len(data)
        return data, after

    monkeypatch.setattr(merger, "read_next", counted)
    logs, total = LogMerger([Cursor(_file(path))]), 0
    tracemalloc.start()
    for _ in range(64):
        with open(path, "ab") as file:
            file.write(b"\r" + b"x" * ((1 << 20) - 1))
        total += sum(len(chunk.data) for chunk in logs.read(follow=True))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read == 64 << 20
    assert total == (64 << 20) + 8  # a line break for every LONGEST_LINE bytes
    assert peak < 4 * LONGEST_LINE


def test_streams_that_alternate_are_read_in_large_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, real = 0, retention.read_next

    def counted(descriptor: int, offset: int, most: int) -> tuple[bytes, int]:
        nonlocal calls
        calls += 1
        return real(descriptor, offset, most)

    monkeypatch.setattr(merger, "read_next", counted)
    made = _Run(tmp_path)
    made.write(*((100.0 + number / 1000, str(number)) for number in range(4000)))
    files = [Cursor(_file(made.folder / f"main.0.{stream}")) for stream in ("out", "err")]
    read = b"".join(chunk.data for chunk in LogMerger(files).read())
    assert read == b"".join(b"%d\n" % number for number in range(4000))
    assert calls <= 4
    made.unlock()


def test_the_last_lines_are_counted_by_line_breaks_only(tmp_path: Path, start: Start) -> None:
    handle = start(job(task("a", "printf 'one\\n10%%\\r20%%\\r30%%\\nthree\\vstill\\n'")))
    handle.wait()
    assert texts(handle, tail=2) == ["10%\r20%\r30%", "three\vstill"]
    assert texts(handle, tail=2, follow=True) == texts(handle, tail=2)


class _Run:
    """A run with one container whose instances are written by the test; locked as if a supervisor were alive."""

    def __init__(self, folder: Path) -> None:
        self.run = RunDir(str(folder))
        self.pod = PodState(task="a", index=0, name="job-a-0", uid="uid", phase="Running")
        self.container = ContainerState(name="main", role="main", pid=1, started_at=0.0)
        self.pod.containers = [self.container]
        self.folder = Path(self.run.pod_folder("job-a-0", 0))
        self.folder.mkdir(parents=True)
        self.lock = self.run.lock()

    def write(self, *lines: tuple[float, str]) -> None:
        paths = [str(self.folder / f"main.{self.container.restarts}.{stream}") for stream in ("out", "err")]
        index, sizes = ContainerIndex(paths), [0, 0]
        for number, (moment, line) in enumerate(lines):
            with open(paths[number % 2], "a") as file:
                file.write(f"{line}\n")
            sizes[number % 2] += len(line) + 1
            index.received(number % 2, sizes[number % 2], moment)
        index.close()
        self.run.write_pods([self.pod])

    def restart(self) -> None:
        self.container.ended = None
        self.container.restarts += 1

    def end(self) -> None:
        self.container.ended = Ended(1, "Error", 0.0)
        self.run.write_pods([self.pod])

    def unlock(self) -> None:
        assert self.lock is not None
        os.close(self.lock)


@pytest.mark.slow
def test_a_job_with_more_restarts_than_files_may_be_open_is_followed(tmp_path: Path) -> None:
    made = _Run(tmp_path)
    follower = Follower(made.run, LogFilter(every_try=True))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
    seen: list[bytes] = []
    try:
        for number in range(200):
            made.write((number, f"out {number}"), (number + 0.5, f"err {number}"))
            made.end()
            seen += [chunk.data for chunk in follower.poll()]
            assert len(follower._merger.cursors) == 0  # logs that have ended cost nothing any more
            made.restart()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    made.unlock()
    seen += [chunk.data for chunk in follower.poll()]
    assert follower.ended
    follower.close()
    assert b"".join(seen).decode().splitlines() == [
        f"{stream} {number}" for number in range(200) for stream in ("out", "err")
    ]


@pytest.mark.parametrize(
    ("since", "tail", "expected"),
    [
        (None, None, ["0", "1", "2", "3", "4", "5", "new"]),
        (103.5, None, ["4", "5", "new"]),
        (None, 3, ["3", "4", "5", "new"]),
        (103.5, 5, ["4", "5", "new"]),
        (101.5, 1, ["5", "new"]),
        (None, 0, ["new"]),
    ],
)
def test_following_begins_with_the_lines_that_since_and_tail_both_allow(
    tmp_path: Path, since: float | None, tail: int | None, expected: list[str]
) -> None:
    made = _Run(tmp_path)
    made.write(*((100.0 + number, str(number)) for number in range(6)))
    follower = Follower(made.run, since=since, tail=tail)
    seen = [chunk.data for chunk in follower.poll()]
    with open(made.folder / "main.0.out", "a") as file:
        file.write("new\n")
    made.unlock()
    seen += [chunk.data for chunk in follower.poll()]
    follower.close()
    assert b"".join(seen).decode().splitlines() == expected
