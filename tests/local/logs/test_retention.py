"""Log retention: the logs of a job stay within a limit, and readers see where lines were removed."""

from __future__ import annotations

import ctypes
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vcjob
from tests.local.conftest import PATIENCE, Start, eventually, job, python, task, texts
from vcjob.local.logs import retention
from vcjob.local.logs.merger import Cursor, LogFile, LogMerger
from vcjob.local.logs.reader import read_all, tail_offset
from vcjob.local.logs.retention import LogRetention, limit_of, next_data, punch_hole

BLOCK = 4096
GAP = re.compile(
    r"\[\.\.\. ([\d,.]+) MiB of older lines were dropped here, to stay within VCJOB_LOG_LIMIT \.\.\.\]"
)


def _file(path: Path) -> LogFile:
    return LogFile(
        path=str(path), rank=0, task="a", index=0, attempt=0, container="main", main=True, restart=0
    )


def _numbered(count: int) -> bytes:
    return b"".join(b"%06d %s\n" % (number, b"x" * (number % 50)) for number in range(count))


def _with_hole(path: Path, content: bytes, start: int, end: int) -> None:
    path.write_bytes(content)
    with open(path, "r+b") as file:
        punch_hole(file.fileno(), start, end)
        if next_data(file.fileno(), start)[0] == start:
            pytest.skip("this file system makes no holes")


def _expected(content: bytes, start: int, end: int) -> list[str]:
    """The lines before the hole (the last one torn), a line for the hole, and the whole lines after it."""
    before, after = content[:start], content[end:]
    gap = f"[... {(end - start) / 2**20:,.1f} MiB of older lines were dropped here, to stay within VCJOB_LOG_LIMIT ...]"
    return [*before.decode().splitlines(), gap, *after.partition(b"\n")[2].decode().splitlines()]


@given(st.integers(1, 4), st.integers(1, 20), st.integers(3300, 5000))
def test_a_hole_is_one_line_and_all_others_are_whole(
    tmp_path_factory: pytest.TempPathFactory, first: int, blocks: int, count: int
) -> None:
    path, content = tmp_path_factory.mktemp("log") / "main.0.out", _numbered(count)
    start, end = first * BLOCK, (first + blocks) * BLOCK
    _with_hole(path, content, start, end)
    expected = _expected(content, start, end)
    read = b"".join(chunk.data for chunk in read_all([_file(path)]))
    assert read.decode().splitlines() == expected
    merger, followed = LogMerger([Cursor(_file(path))]), b""
    while chunks := list(merger.read(budget=5000, follow=True)):
        followed += b"".join(chunk.data for chunk in chunks)
    assert followed.decode().splitlines() == expected


def test_the_last_lines_are_found_before_and_after_a_hole(tmp_path: Path) -> None:
    path, content = tmp_path / "main.0.out", _numbered(60_000)
    _with_hole(path, content, 65536, 65536 + 256 * BLOCK)
    after = content[65536 + 256 * BLOCK :].count(b"\n")
    with open(path, "rb") as file:
        for count in (1, 10, after - 1, after + 10):
            offset = tail_offset(file.fileno(), len(content), count)
            assert (offset > 65536) == (count <= after)
            if count < after:
                assert content[offset:].count(b"\n") == count


def test_the_longest_logs_give_way_until_there_is_room(tmp_path: Path) -> None:
    said: list[str] = []
    for pod, size in (("noisy", 6 << 20), ("quiet", 1 << 20)):
        folder = tmp_path / pod / "0"
        folder.mkdir(parents=True)
        (folder / "main.0.out").write_bytes(b"x" * 99 + b"\n" + b"y" * size)
    mine = tmp_path / "noisy" / "0" / "volumes" / "result.out"
    mine.parent.mkdir()
    mine.write_bytes(b"z" * (9 << 20))
    LogRetention(str(tmp_path), 4 << 20, said.append).check()
    noisy, quiet = (os.stat(tmp_path / pod / "0" / "main.0.out") for pod in ("noisy", "quiet"))
    if said and "cannot be dropped" in said[0]:
        pytest.skip(said[0])
    assert noisy.st_size == (6 << 20) + 100
    assert (noisy.st_blocks + quiet.st_blocks) * 512 <= 3 << 20
    assert quiet.st_blocks * 512 >= 1 << 20
    assert mine.read_bytes() == b"z" * (9 << 20)
    assert "VCJOB_LOG_LIMIT" in said[0]


def test_room_that_a_file_system_reserves_behind_a_log_ends_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XFS reserves as much again behind a file that grows. It cannot be freed; the other logs still give way."""
    logs = []
    for pod in ("reserved", "other"):
        folder = tmp_path / pod / "0"
        folder.mkdir(parents=True)
        logs.append(folder / "main.0.out")
        logs[-1].write_bytes(b"y" * (2 << 20))
    with open(logs[0], "r+b") as file:
        size, keep_size = ctypes.c_int64(2 << 20), 1
        if retention._libc.fallocate(file.fileno(), keep_size, size, size) != 0:
            pytest.skip("this file system reserves no room behind a file")
    calls, remove = [], retention._remove_older_half

    def counted(path: str, used: int) -> int:
        calls.append(path)
        assert len(calls) < 50, "the check does not end"
        return remove(path, used)

    monkeypatch.setattr(retention, "_remove_older_half", counted)
    assert LogRetention(str(tmp_path), 4 << 20, lambda _: None).check() is not None
    used = [os.stat(log).st_blocks * 512 for log in logs]
    assert used[0] < 4 << 20 and used[1] < 2 << 20


def test_a_removal_that_takes_long_does_not_delay_the_next_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a program that prints quickly gets further above the limit with every check."""
    folder = tmp_path / "noisy" / "0"
    folder.mkdir(parents=True)
    (folder / "main.0.out").write_bytes(b"y" * (6 << 20))

    def remove_slowly(path: str, used: int) -> int:
        time.sleep(0.1)
        return used // 2

    monkeypatch.setattr(retention, "_remove_older_half", remove_slowly)
    due = LogRetention(str(tmp_path), 4 << 20, lambda _: None).check()
    assert due is not None and due < 5


def test_within_the_limit_nothing_is_touched(tmp_path: Path) -> None:
    folder = tmp_path / "pod" / "0"
    folder.mkdir(parents=True)
    (folder / "main.0.out").write_bytes(b"x" * (2 << 20))
    before = os.stat(folder / "main.0.out").st_blocks
    LogRetention(str(tmp_path), 4 << 20, lambda _: pytest.fail("nothing is to be said")).check()
    LogRetention(str(tmp_path), 0, lambda _: pytest.fail("there is no limit")).check()
    assert os.stat(folder / "main.0.out").st_blocks == before


@pytest.mark.slow
def test_a_job_that_prints_without_end_keeps_its_first_and_its_newest_lines(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_LOG_LIMIT", "4Mi")
    program = (
        "import time\nn = 0\nwhile True:\n"
        "    for _ in range(2000):\n        print(n, 'x' * 90)\n        n += 1\n    time.sleep(0.05)\n"
    )
    handle = start(job(task("a", python(program))))
    eventually(lambda: any("VCJOB_LOG_LIMIT" in note for note in handle.notes()), PATIENCE)
    handle.stop(now=True)
    handle.wait(PATIENCE)
    if any("cannot be dropped" in note for note in handle.notes()):
        pytest.skip("this file system makes no holes")
    lines = texts(handle)
    gaps = [place for place, line in enumerate(lines) if GAP.fullmatch(line)]
    (gap,) = gaps
    numbers = [int(line.split()[0]) for place, line in enumerate(lines[:-1]) if place not in (gap - 1, gap)]
    assert numbers[: gap - 1] == list(range(gap - 1))
    assert numbers[gap - 1 :] == list(range(numbers[gap - 1], numbers[-1] + 1))
    (event,) = [event for event in handle.events() if event["reason"] == "LogsTruncated"]
    assert event["type"] == "Warning"


@pytest.mark.parametrize("text", ["much", "-1Gi"])
def test_a_limit_that_is_no_amount_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("VCJOB_LOG_LIMIT", text)
    with pytest.raises(vcjob.VcjobError, match="VCJOB_LOG_LIMIT") as caught:
        start(job(task("a", "true")))
    assert caught.value.exit_code == 2
    assert vcjob.jobs() == []


def test_the_limit_in_bytes() -> None:
    assert limit_of({}) == 10 << 30
    assert limit_of({"VCJOB_LOG_LIMIT": "5Mi"}) == 5 << 20
    assert limit_of({"VCJOB_LOG_LIMIT": "0"}) == 0
