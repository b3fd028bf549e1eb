"""A store that cannot be read for some time, as a network file system can be: the job continues."""

from __future__ import annotations

import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import vcjob
from tests.local.conftest import PATIENCE, Start, eventually, job, task
from tests.local.jobs.test_store import document
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig, RunDir
from vcjob.local.supervisor import supervisor
from vcjob.local.supervisor.supervisor import Supervisor

WAITING = "until [ -e go ]; do sleep 0.02; done"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder is a symbolic link, which can be replaced in one step."""
    (tmp_path / "disk").mkdir(mode=0o700)
    link = tmp_path / "home"
    link.symlink_to("disk")
    monkeypatch.setenv("VCJOB_HOME", str(link))
    return link


@contextmanager
def unreadable(home: Path) -> Iterator[None]:
    """Every access below the home folder fails with ELOOP, also for root."""
    _point(home, home.name)
    try:
        yield
    finally:
        _point(home, "disk")


def _point(link: Path, target: str) -> None:
    fresh = link.with_name("fresh")
    fresh.symlink_to(target)
    fresh.replace(link)


def _supervise(run: RunDir, lock: int, polls: int) -> None:
    """In a child process: supervise the run; a byte into `polls` for every time the supervisor polls the store."""
    poll = Supervisor._poll_commands

    def reported(self: Supervisor) -> None:
        poll(self)
        os.write(polls, b".")

    os.setsid()
    os.environ["VCJOB_RUN_UID"] = run.uid
    os.dup2(lock, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor, "_POLL_COMMANDS", 0.02)
        patch.setattr(Supervisor, "_poll_commands", reported)
        supervisor.main(run.folder)


def test_a_run_whose_folder_cannot_be_read_for_some_time_continues(tmp_path: Path, home: Path) -> None:
    made = {**job(task("a", WAITING)), "metadata": document()["metadata"]}
    run, lock = Store().create(made, RunConfig(env=dict(os.environ), cwd=str(tmp_path)), "given")
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _supervise(run, lock, writing)
        finally:
            os._exit(0)
    os.close(lock)
    os.close(writing)
    handle = vcjob.find("job")
    eventually(lambda: handle.phase == "Running")
    with unreadable(home), os.fdopen(reading, "rb", buffering=0) as polls:
        earlier = len(polls.read(1 << 16) or b"")
        assert earlier
        assert [polls.read(1) for _ in range(3)] == [b"."] * 3
    assert run.supervised() and handle.phase == "Running"
    (tmp_path / "go").touch()
    assert handle.wait(PATIENCE) == "Completed"
    os.waitpid(pid, 0)


def test_commands_that_cannot_be_listed_do_not_end_the_supervisor(
    start: Start, tmp_path: Path, home: Path
) -> None:
    handle = start(job(task("a", WAITING)))
    eventually(lambda: handle.phase == "Running")
    wake = os.open(Path(handle.folder, "wake"), os.O_RDWR | os.O_NONBLOCK)

    def is_read() -> bool:
        return struct.unpack("i", fcntl.ioctl(wake, termios.FIONREAD, bytes(4))) == (0,)

    with unreadable(home):
        for _ in range(2):  # the supervisor has handled the first byte when it reads the second one
            os.write(wake, b".")
            eventually(is_read)
    os.close(wake)
    (tmp_path / "go").touch()
    assert handle.wait(PATIENCE) == "Completed"
