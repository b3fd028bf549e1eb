"""Reading logs: all lines, in order, with their rank; the newest attempt or an earlier one; since, and tail."""

from __future__ import annotations

import io
import math
import os
import resource
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, container, eventually, job, python, ranks, task, texts
from vcjob.cli.output.log_text import log_text
from vcjob.cli.output.screen import Screen
from vcjob.cli.output.style import Style
from vcjob.errors import StoreError
from vcjob.local.logs.follower import Follower
from vcjob.local.logs.merger import LogFile
from vcjob.local.logs.reader import read_all
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import Chunk, LogOrigin

MANY = "import os, sys\nfor n in range({count}):\n    sys.stdout.write(f'{{n}} of rank ' + os.environ['RANK'] + '\\n')\n"


def origin(rank: int | None, task: str, index: int) -> LogOrigin:
    return LogOrigin(rank=rank, task=task, index=index, attempt=0, container="main", main=True, restart=0)


def _check_complete(lines: list[str], count: int) -> None:
    by_rank: dict[str, list[str]] = {}
    for line in lines:
        prefix, _, text = line.partition("] ")
        by_rank.setdefault(prefix + "]", []).append(text)
    assert sorted(by_rank) == ["[0 master-0]", "[1 worker-0]", "[2 worker-1]"]
    for rank, prefix in enumerate(sorted(by_rank)):
        assert by_rank[prefix] == [f"{n} of rank {rank}" for n in range(count)]


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_every_line_of_every_rank_is_there_in_order(start: Start, count: int) -> None:
    program = python(MANY.format(count=count))
    handle = start(job(task("master", program), task("worker", program, replicas=2)))
    followed = verb("logs", "job", "-f")
    handle.wait(PATIENCE)
    _check_complete(followed.stdout.splitlines(), count)
    afterwards = verb("logs", "job")
    _check_complete(afterwards.stdout.splitlines(), count)


def test_lines_of_different_ranks_stand_in_the_order_of_time(finish: Start) -> None:
    say = "while [ ! -e go-$RANK ]; do sleep 0.01; done; echo $RANK; sleep 0.25; touch go-$((RANK - 1))"
    first = "echo 2; sleep 0.25; touch go-1"
    handle = finish(
        job(
            task("master", say), task("worker", f"if [ $RANK = 2 ]; then {first}; else {say}; fi", replicas=2)
        )
    )
    assert texts(handle) == ["2", "1", "0"]


def test_more_logs_than_files_may_be_open_are_read(tmp_path: Path) -> None:
    files = []
    for index in range(400):
        path = tmp_path / f"{index}.out"
        path.write_text(f"line of {index}\n")
        known = origin(index, "worker", index)
        files.append(
            LogFile(**{name: getattr(known, name) for name in known.__struct_fields__}, path=str(path))
        )
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        lines = b"".join(chunk.data for chunk in read_all(files)).decode().splitlines()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert sorted(lines) == sorted(f"line of {index}" for index in range(400))


def test_stderr_is_there_too_and_known_as_such(finish: Start) -> None:
    handle = finish(job(task("a", "echo out; sleep 0.3; echo err >&2")))
    assert [(line.stream, line.text) for line in handle.logs()] == [("out", "out"), ("err", "err")]


def test_a_last_line_without_an_end_is_shown(finish: Start) -> None:
    handle = finish(job(task("a", "printf 'no newline'")))
    assert texts(handle) == ["no newline"]
    assert texts(handle, follow=True) == ["no newline"]


def test_tail_counts_lines_per_container(finish: Start) -> None:
    handle = finish(job(*ranks("for i in 1 2 3 4 5; do echo $i; done")))
    assert sorted(texts(handle, tail=2)) == ["4", "4", "4", "5", "5", "5"]
    assert texts(handle, tail=0) == []
    assert len(texts(handle, tail=100)) == 15


def test_since_leaves_out_what_is_older(finish: Start) -> None:
    handle = finish(job(task("a", "echo old; sleep 0.8; echo new")))
    (pod,) = handle.pods()
    assert pod.started_at is not None
    assert texts(handle, since=pod.started_at + 0.6) == ["new"]
    assert texts(handle, since=pod.started_at - 5) == ["old", "new"]


def test_a_rank_or_a_task_or_a_container_can_be_chosen(finish: Start) -> None:
    two = [container("echo one", "one"), container("echo two", "two")]
    handle = finish(job(task("master", *two), task("worker", "echo w", replicas=2)))
    assert texts(handle, ranks=(2,)) == ["w"]
    assert texts(handle, tasks=("worker",)) == ["w", "w"]
    assert [str(line) for line in handle.logs(containers=("two",))] == ["[0 master-0 two] two"]


def test_following_shows_lines_while_the_job_runs_and_goes_on_through_restarts(
    start: Start, tmp_path: Path
) -> None:
    program = "echo try; while [ ! -e go ]; do sleep 0.02; done; [ -e second ] || { touch second; exit 1; }; echo end"
    handle = start(job(task("a", program, restartPolicy="OnFailure")))
    seen = []
    for line in handle.logs(follow=True):
        seen.append(line.text)
        if len(seen) == 1:
            eventually(lambda: handle.phase == "Running")  # its line may be read before its status is written
            (tmp_path / "go").touch()
    assert seen == ["try", "try", "end"]


def test_bytes_that_are_no_text_do_not_stop_the_reader(finish: Start) -> None:
    handle = finish(job(task("a", "printf 'a\\377b\\nnext\\n'")))
    assert texts(handle) == ["a�b", "next"]


def test_a_prefix_is_put_before_every_line_of_a_chunk() -> None:
    worker = origin(rank=3, task="worker", index=2)
    assert (
        log_text(Chunk(worker, b"a\n\nb\n"), Style(io.StringIO()))
        == b"[3 worker-2] a\n[3 worker-2] \n[3 worker-2] b\n"
    )


def test_the_screen_writes_what_it_gets_at_once() -> None:
    out = io.StringIO()
    Screen("job", out, io.StringIO()).logs([Chunk(origin(rank=None, task="a", index=0), b"one\n")])
    assert out.getvalue() == "[- a-0] one\n"


def test_files_without_an_index_are_still_read(tmp_path: Path) -> None:
    path = tmp_path / "main.0.out"
    path.write_text("a\nb")
    file = LogFile(
        path=str(path), rank=0, task="a", index=0, attempt=0, container="main", main=True, restart=0
    )
    assert [chunk.data for chunk in read_all([file])] == [b"a\n", b"b\n"]


@pytest.mark.slow
def test_following_costs_nothing_when_nothing_happens(start: Start, tmp_path: Path) -> None:
    handle = start(job(task("a", "while [ ! -e go ]; do sleep 0.05; done")))
    eventually(lambda: handle.phase == "Running")
    follower = handle.follow()
    follower.poll()
    began, work = time.monotonic(), time.process_time()
    while time.monotonic() - began < 1.0:
        follower.poll()
        follower.wait()
    assert time.process_time() - work < 0.2
    follower.close()
    (tmp_path / "go").touch()
    assert handle.wait(PATIENCE) == "Completed"
    assert os.path.isdir(handle.folder)


def _log(path: Path) -> LogFile:
    return LogFile(
        path=str(path), rank=0, task="a", index=0, attempt=0, container="main", main=True, restart=0
    )


@pytest.mark.parametrize("options", [{}, {"tail": 1}, {"since": 1.0}])
def test_a_log_that_was_deleted_after_it_was_found_has_no_lines(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    assert list(read_all([_log(tmp_path / "main.0.out")], **options)) == []


@pytest.mark.parametrize("options", [{}, {"tail": 1}, {"since": 1.0}])
@pytest.mark.parametrize("kind", ["a folder", "a loop of links"])
def test_a_log_that_cannot_be_read_is_named(tmp_path: Path, kind: str, options: dict[str, Any]) -> None:
    path = tmp_path / "main.0.out"
    if kind == "a folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    with pytest.raises(StoreError, match=f"cannot be read: {path}"):
        list(read_all([_log(path)], **options))


def test_a_state_that_cannot_be_read_ends_following_with_its_file(finish: Start) -> None:
    path = Path(finish(job(task("a", "true"))).folder, "status.json")
    follower = Follower(RunDir(str(path.parent)))
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(StoreError, match=f"cannot be read: {path}"):
        follower.poll()
    follower.close()


@pytest.mark.parametrize("moment", [math.nan, math.inf, -1.0, 1e300])
def test_a_damaged_time_index_loses_times_and_no_line(finish: Start, moment: float) -> None:
    handle = finish(job(task("a", "echo one; echo two")))
    log = next(Path(handle.folder).glob("pods/*/*/*.out"))
    Path(f"{log}.times").write_bytes(struct.pack("<dQ", moment, 2**64 - 1))
    assert verb("logs", "job", "--timestamps").stdout.splitlines() == ["[- a-0] - one", "[- a-0] - two"]
    assert verb("logs", "job", "--since", "1h").returncode == 0
