"""Processes: how they start, which belong to a run, and the loop that waits for them."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import socket
import struct
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from vcjob.local.live.usage import read_process
from vcjob.local.machine import linux, process
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.launch import LaunchRequest, PlainLauncher, StartFailure


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    launcher = PlainLauncher()
    (tmp_path / "not-a-program").write_text("")

    def refusal(argv: list[str], cwd: str = "/") -> str:
        with pytest.raises(StartFailure) as failed:
            launcher.launch(LaunchRequest(argv, dict(os.environ), cwd, 1, 2))
        return failed.value.message

    assert refusal(["no-such-program"]) == "command 'no-such-program': not found on this machine"
    assert refusal(["sh"], "/nowhere") == "workingDir /nowhere: does not exist on this machine"
    assert "Permission denied" in refusal([str(tmp_path / "not-a-program")])


@pytest.fixture
def ignored_quit() -> Iterator[None]:
    """A shell ignores some signals in background processes."""
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGQUIT, before)


@pytest.mark.usefixtures("ignored_quit")
def test_a_child_has_default_signals_its_own_session_and_only_its_streams(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_RDWR)
    secret = os.open(os.devnull, os.O_RDONLY)
    shell = f"grep SigIgn /proc/self/status; {sys.executable} -c \"import os; print(os.getsid(0), os.listdir('/proc/self/fd'))\""
    child = PlainLauncher().launch(LaunchRequest(["sh", "-c", shell], dict(os.environ), "/", out, out))
    os.waitpid(child.pid, 0)
    child.close()
    os.close(secret)
    os.close(out)
    ignored, line = (tmp_path / "out").read_text().splitlines()
    # 32 and 33 belong to the C library: make leaves them ignored, and no program can change that.
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0
    assert line == f"{child.pid} ['0', '1', '2', '3']"


@pytest.mark.slow
def test_a_process_that_forks_and_ends_all_the_time_is_found_at_each_look() -> None:
    uid = str(uuid.uuid4())
    fleeing = "import os, time; end = time.monotonic() + 20\nwhile time.monotonic() < end:\n  time.sleep(0.003)\n  if os.fork(): os._exit(0)"
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", fleeing], {process.MARK_RUN: uid})
    looks = [process.marked(process.MARK_RUN, uid) for _ in range(100)]
    assert all(looks)
    os.waitpid(pid, 0)
    assert process.kill_until_gone(lambda: process.marked(process.MARK_RUN, uid)) == []


def test_timers_fire_in_order_and_cancelled_ones_do_not() -> None:
    loop, heard = Loop(), []
    loop.after(0.02, lambda: heard.append("late"))
    loop.after(0.0, lambda: heard.append("early"))
    loop.after(0.01, lambda: heard.append("never")).cancel()
    loop.after(0.03, loop.stop)
    loop.run()
    assert heard == ["early", "late"]


def test_a_descriptor_that_was_forgotten_by_an_earlier_call_is_not_served() -> None:
    loop, heard = Loop(), []
    pairs = [socket.socketpair() for _ in range(2)]

    def served(own: int) -> None:
        heard.append(own)
        loop.forget(pairs[0][0])
        loop.forget(pairs[1][0])
        loop.stop()

    for number, (reading, writing) in enumerate(pairs):
        writing.send(b"x")
        loop.on_readable(reading, partial(served, number))
    loop.run()
    assert len(heard) == 1
    for pair in pairs:
        pair[0].close()
        pair[1].close()


def test_an_orphan_that_came_while_its_parent_ended_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent is listed as alive and has ended when it is checked; by then its child is our child."""
    listings = iter([[101], [101, 102], [101, 102]])
    states = {101: "Z", 102: "S"}
    monkeypatch.setattr(process, "_listed_children", lambda parent: next(listings))
    monkeypatch.setattr(process, "stat_fields", lambda pid: [states[pid]])
    assert process.children(1) == [102]


def test_an_orphan_is_seen_also_beside_children_that_live_on(monkeypatch: pytest.MonkeyPatch) -> None:
    listings = iter([[100, 101], [100, 101, 102], [100, 101, 102]])
    states = {100: "S", 101: "Z", 102: "S"}
    monkeypatch.setattr(process, "_listed_children", lambda parent: next(listings))
    monkeypatch.setattr(process, "stat_fields", lambda pid: [states[pid]])
    assert process.children(1, lambda pid: pid != 100) == [102]


def test_ended_children_alone_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_listed_children", lambda parent: [101])
    monkeypatch.setattr(process, "stat_fields", lambda pid: ["Z"])
    assert process.children(1) == []


def _turn_of(pid: int) -> tuple[int, int]:
    """The scheduling policy of a process and its time slice in nanoseconds."""
    call = linux.SCHED_CALLS[os.uname().machine][1]
    buffer = ctypes.create_string_buffer(48)
    assert ctypes.CDLL(None).syscall(call, pid, buffer, 48, 0) == 0
    fields = struct.unpack("IIQiIQQQ", buffer.raw)
    return fields[1], fields[5]


def _turns_can_be_chosen() -> bool:
    system = os.uname()
    release = re.match(r"(\d+)\.(\d+)", system.release)
    return (
        linux.LINUX
        and system.machine in linux.SCHED_CALLS
        and release is not None
        and (int(release[1]), int(release[2])) >= (6, 12)
    )


@pytest.mark.skipif(
    not _turns_can_be_chosen(),
    reason="turns on a core can be chosen from Linux 6.12 on, on x86_64 and aarch64",
)
def test_a_process_takes_long_turns_and_what_it_starts_does_not() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    reading, writing = os.pipe()
    child = PlainLauncher().launch(
        LaunchRequest(["sh", "-c", "sleep 600 & echo $!; wait"], dict(os.environ), "/", writing, null)
    )
    try:
        grandchild = int(os.read(reading, 100))
        own = _turn_of(os.getpid())
        assert _turn_of(child.pid) == (own[0], 100_000_000)
        assert _turn_of(grandchild) == own
    finally:
        child.signal_group(signal.SIGKILL)
        for descriptor in (null, reading, writing):
            os.close(descriptor)
        child.close()


#: 15 bytes of it are the name of its process: the kernel cuts the last character.
_SCRIPT = "run-训练脚本.sh"


@pytest.mark.skipif(not linux.LINUX, reason="names of processes are read from /proc")
def test_a_process_is_identified_whatever_bytes_its_name_has(tmp_path: Path) -> None:
    script = tmp_path / _SCRIPT
    script.write_text("#!/bin/sh\nsleep 600 & wait\n")
    script.chmod(0o755)
    child = PlainLauncher().launch(LaunchRequest([str(script)], dict(os.environ), "/", 1, 2))
    try:
        started = process.start_time(child.pid)
        assert started is not None and process.is_same(child.pid, started)
        assert process.name_of(child.pid) == "run-训练脚\ufffd"
        assert child.pid in process.children(os.getpid())
        sample = read_process(child.pid)
        assert sample is not None and sample.started == started
    finally:
        child.signal_group(signal.SIGKILL)
        child.close()
