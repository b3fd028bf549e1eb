"""Output of containers: what they write to stdout and stderr is in the logs, whatever they or others do."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.local.conftest import PATIENCE, Start, eventually, job, left_behind, python, task, texts
from vcjob.local.logs.writer import EMPTY, LogWriter
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.output import PIPE_SIZE, ContainerOutput, log_paths
from vcjob.sdk.handle import Handle
from vcjob.sdk.local.handle import LocalHandle

#: Writes to the two streams in turn, and each time waits until somebody has read it.
IN_TURN = """
import array, fcntl, os, termios, time
for number in range(40):
    stream = 1 + number % 2
    os.write(stream, b'%d\\n' % number)
    left = array.array('i', [1])
    while left[0]:
        fcntl.ioctl(stream, termios.FIONREAD, left)
        time.sleep(0.001)
"""

#: Prints numbered lines as fast as it can; the file `count` says how many are written.
FAST = """
import os
count = os.open('count', os.O_CREAT | os.O_WRONLY, 0o644)
for number in range({lines}):
    os.write(1, b'%06d %s\\n' % (number, b'x' * 93))
    os.pwrite(count, b'%06d' % (number + 1), 0)
"""


def _by_stream(handle: Handle) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"out": [], "err": []}
    for line in handle.logs():
        found[line.stream].append(line.text)
    return found


def test_opening_dev_stdout_and_dev_stderr_appends(finish: Start) -> None:
    handle = finish(
        job(
            task(
                "a",
                "echo one; echo e1 >/dev/stderr; echo e2 >/dev/stderr; echo two >/dev/stdout; echo three;"
                "echo four | tee /dev/stderr; echo five >/proc/self/fd/1; echo e3 >>/dev/stderr",
            )
        )
    )
    assert _by_stream(handle) == {
        "out": ["one", "two", "three", "four", "five"],
        "err": ["e1", "e2", "four", "e3"],
    }


def test_python_programs_can_open_dev_stderr(finish: Start) -> None:
    program = (
        "import sys\nprint('one', file=sys.stderr, flush=True)\nopen('/dev/stderr', 'w').write('two\\n')\n"
    )
    assert _by_stream(finish(job(task("a", python(program))))) == {"out": [], "err": ["one", "two"]}


def test_the_two_streams_are_shown_in_the_order_in_which_they_were_written(start: Start) -> None:
    handle = start(job(task("a", python(IN_TURN))))
    expected = [str(number) for number in range(40)]
    assert texts(handle, follow=True) == expected
    assert texts(handle) == expected


def test_a_process_that_outlives_its_container_does_not_delay_its_end(finish: Start) -> None:
    program = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    print('child', flush=True)\n    time.sleep(600)\n"
        "time.sleep(0.2)\nprint('parent', flush=True)\n"
    )
    handle = finish(job(task("a", python(program))))
    assert handle.phase == "Completed"
    assert sorted(texts(handle)) == ["child", "parent"]


def test_everything_that_was_written_just_before_the_end_is_kept(finish: Start) -> None:
    handle = finish(job(task("a", "head -c 2000000 /dev/zero | tr '\\0' x; echo; echo end; kill -9 $$$$")))
    assert [len(line) for line in texts(handle)] == [2_000_000, 3]


def _shim(handle: Handle) -> int:
    return next(pid for pid in left_behind(handle) if Path(f"/proc/{pid}/comm").read_text() == "vcjob-pod\n")


def _stalled(count: Path) -> int:
    """How many lines were written when the writer waits for its pipe; 0 while it makes progress."""
    before = count.read_text() if count.exists() else ""
    time.sleep(0.1)
    return int(before) if before and before == count.read_text() else 0


WAIT_FOR_GO = "import time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"


def _with_stopped_shim(start: Start, folder: Path) -> tuple[LocalHandle, int, int]:
    """A rank that fills its pipe because its shim is stopped: the job, the shim, and the lines written."""
    handle = start(job(task("a", python("import os\n" + WAIT_FOR_GO + FAST.format(lines=30_000)))))
    eventually(lambda: handle.phase == "Running")
    shim = _shim(handle)
    os.kill(shim, signal.SIGSTOP)
    (folder / "go").touch()
    written = eventually(lambda: _stalled(folder / "count"))
    return handle, shim, written


def test_a_rank_waits_for_a_slow_reader_and_no_line_is_lost(start: Start, tmp_path: Path) -> None:
    handle, shim, written = _with_stopped_shim(start, tmp_path)
    assert written <= PIPE_SIZE / 100 + 1
    os.kill(shim, signal.SIGCONT)
    assert handle.wait(PATIENCE) == "Completed"
    assert [int(line[:6]) for line in texts(handle)] == list(range(30_000))


def test_output_that_a_killed_shim_had_not_read_is_saved(start: Start, tmp_path: Path) -> None:
    handle, shim, written = _with_stopped_shim(start, tmp_path)
    os.kill(shim, signal.SIGKILL)
    assert handle.wait(PATIENCE) == "Failed"
    lines = texts(handle)
    assert len(lines) >= written
    assert [int(line[:6]) for line in lines[:written]] == list(range(written))


def test_output_is_saved_when_the_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    handle = start(job(task("a", python(FAST.format(lines=10_000_000)))))
    eventually(lambda: handle.phase == "Running")
    eventually(lambda: (tmp_path / "count").exists() and int((tmp_path / "count").read_text() or 0) > 2000)
    for pid in left_behind(handle):
        if Path(f"/proc/{pid}/comm").read_text() == "vcjob-supervise\n":
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not left_behind(handle))
    written = int((tmp_path / "count").read_text())
    lines = texts(handle)
    assert [int(line[:6]) for line in lines[:written]] == list(range(written))


@contextmanager
def _file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_log_that_cannot_be_written_loses_output_and_says_how_much(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    failures: list[str] = []
    log = tmp_path / "main.0.out"
    for splicing in (True, False):
        writer = LogWriter(reading, str(log), failures.append)
        writer._can_splice = splicing and writer._can_splice
        with _file_size_limit(8192):
            for number in range(200):
                os.write(writing, b"%06d %s\n" % (number, b"x" * 92))
                writer.drain(100)
        os.write(writing, b"after\n")
        assert writer.drain(PIPE_SIZE) is False
        assert writer.move() == EMPTY
        writer.close()
        *kept, gap, after = log.read_bytes().splitlines()
        assert [int(line[:6]) for line in kept if len(line) >= 6] == list(range(len(kept)))
        found = re.fullmatch(rb"\[\.\.\. (\d+) bytes of output were lost here: File too large \.\.\.\]", gap)
        assert found is not None and after == b"after"
        assert sum(len(line) for line in kept) + len(kept) + int(found[1]) in (20_000, 20_001)
        log.unlink()
    assert failures == ["File too large"] * 2
    os.close(writing)
    assert LogWriter(reading, str(log), failures.append).move() == 0
    os.close(reading)


def test_a_full_disk_is_reported_and_the_rank_keeps_running(finish: Start) -> None:
    """The limit on the size of files is inherited by the shim, which writes the logs."""
    with _file_size_limit(200_000):
        handle = finish(
            job(task("a", "ulimit -f unlimited; head -c 1000000 /dev/zero; echo; touch survived"))
        )
    assert handle.phase == "Completed"
    (event,) = [event for event in handle.events() if event["reason"] == "LogsLost"]
    assert event["type"] == "Warning" and "File too large" in event["message"]


def test_printing_line_by_line_wakes_the_reader_a_bounded_number_of_times(tmp_path: Path) -> None:
    loop = Loop()
    output = ContainerOutput(loop, log_paths(str(tmp_path), "main", 0), lambda _reason: None)
    reads, read = 0, output.read

    def counted() -> None:
        nonlocal reads
        reads += 1
        read()

    output.read = counted  # type: ignore[method-assign]
    began = time.monotonic()

    def write() -> None:
        os.write(output.ends[0], b"line\n")
        if time.monotonic() - began < 0.5:
            loop.after(0.0002, write)
        else:
            loop.stop()

    loop.after(0, write)
    loop.run()
    assert reads <= 20 + (time.monotonic() - began) * 200 + 2
    output.close()
    lines = (tmp_path / "main.0.out").read_bytes().splitlines()
    assert set(lines) == {b"line"} and len(lines) > reads


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A job store on a disk of 3 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk of its own size can be mounted: {mounted.stderr.strip()}")
    monkeypatch.setenv("VCJOB_HOME", str(disk))
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.slow
def test_output_that_does_not_fit_on_the_disk_is_lost_with_a_reason_and_the_rank_keeps_running(
    small_disk: Path, start: Start, tmp_path: Path
) -> None:
    (small_disk / "filler").write_bytes(bytes(1_000_000))
    script = "seq 1 900000; touch printed; while [ -e disk/filler ]; do sleep 0.05; done; echo last"
    handle = start(job(task("a", script)))
    eventually((tmp_path / "printed").exists)
    (small_disk / "filler").unlink()
    assert handle.wait(PATIENCE) == "Completed"
    assert "LogsLost" in [event["reason"] for event in handle.events()]
    # Others free space now and then, so that the log may have several gaps.
    printed = "".join(f"{number}\n" for number in range(1, 900_001)) + "last\n"
    first, *rest = _GAP.split("".join(f"{text}\n" for text in texts(handle)))
    assert rest and rest[-1].endswith("last\n")
    positions = _after(printed, first, {0})
    for lost, kept in zip(rest[::2], rest[1::2], strict=True):
        positions = _after(printed, kept, {position + int(lost) for position in positions})
    assert len(printed) in positions


_GAP = re.compile(r"\[\.\.\. (\d+) bytes of output were lost here: No space left on device \.\.\.\]\n")


def _after(printed: str, kept: str, positions: set[int]) -> set[int]:
    """Where `kept` ends in `printed` if it begins at one of `positions`. A gap ends a torn line with a newline."""
    pieces = {kept, kept.removesuffix("\n")}
    return {at + len(piece) for at in positions for piece in pieces if printed.startswith(piece, at)}
