"""Unusual callers and homes: an environment or a home that is no UTF-8, ignored signals, no file locks, foreign folders."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from pathlib import Path

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, container, job, task
from vcjob.errors import BackendError, StoreError
from vcjob.local.jobs import doctor
from vcjob.local.machine import files
from vcjob.local.run.run_dir import RunConfig

NOT_UTF_8 = os.fsdecode(b"caf\xe9")


def test_bytes_that_are_no_utf_8_survive_in_every_json_file(tmp_path: Path) -> None:
    config = RunConfig(env={"NAME": NOT_UTF_8, NOT_UTF_8: "value"}, cwd=f"/{NOT_UTF_8}")
    path = str(tmp_path / "file")
    files.write_json(path, config)
    assert files.read_json(path, RunConfig) == config
    files.append_line(path + ".lines", {"text": NOT_UTF_8})
    assert files.read_lines(path + ".lines", dict[str, str]) == ([{"text": NOT_UTF_8}], 0)


def test_a_variable_that_is_no_utf_8_reaches_the_rank_unchanged(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", 'printf %s "$ODD" | od -An -tx1'))))
    result = verb("run", "job.yaml", ODD=NOT_UTF_8, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "63 61 66 e9" in result.stdout


@pytest.mark.parametrize("warm", [(), ("--warm",)])
def test_a_home_that_is_no_utf_8_can_be_used(tmp_path: Path, warm: tuple[str, ...]) -> None:
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "echo hello"))))
    home = {"VCJOB_HOME": str(tmp_path / NOT_UTF_8)}
    result = verb("run", "job.yaml", *warm, **home, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "hello" in result.stdout
    for words in (
        ("list",),
        ("status", "job"),
        ("logs", "job"),
        ("events", "job"),
        ("delete", "job"),
        ("doctor",),
    ):
        shown = verb(*words, **home, cwd=tmp_path)
        assert "Traceback" not in shown.stderr and shown.returncode in (0, 1), shown.stderr
    assert verb("status", "job", **home, cwd=tmp_path).returncode == 2


def test_a_folder_that_is_no_utf_8_can_be_worked_in(tmp_path: Path) -> None:
    folder = tmp_path / NOT_UTF_8
    folder.mkdir()
    (folder / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "ls"))))
    result = verb("run", "job.yaml", cwd=folder)
    assert result.returncode == 0 and "job.yaml" in result.stdout, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM])
def test_a_caller_that_ignores_a_signal_can_run_a_job(start: Start, number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        handle = start(job(task("a", "exit 3")))
        assert handle.wait(PATIENCE) == "Failed"
        assert handle.pods()[0].containers[0].ended is not None
        second = start(job(task("a", "sleep 600"), name="second"))
        second.stop()
        assert second.wait(PATIENCE) == "Terminated"
    finally:
        signal.signal(number, before)


def test_a_caller_that_blocks_signals_can_run_a_job(start: Start) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    try:
        assert start(job(task("a", "true"))).wait(PATIENCE) == "Completed"
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_a_clear_error_and_doctor_says_so(
    start: Start, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def no_locks(_descriptor: int, _operation: int) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", no_locks)
        with pytest.raises(StoreError, match="cannot be locked") as refusal:
            start(job(task("a", "true")))
        check = next(check for check in doctor.examine() if check.topic == "jobs")
    assert refusal.value.hint and "VCJOB_HOME" in refusal.value.hint
    assert check.standing == "missing" and "cannot be locked" in check.message
    assert vcjob.jobs() == []
    assert next(check for check in doctor.examine() if check.topic == "jobs").standing == "ok"


def test_every_folder_that_is_made_is_private(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a" / "b" / "home"
    monkeypatch.setenv("VCJOB_HOME", str(home))
    start(job(task("a", "true"))).wait(PATIENCE)
    folders = [
        tmp_path / "a",
        tmp_path / "a" / "b",
        home,
        *(path for path in home.rglob("*") if path.is_dir()),
    ]
    assert {path: oct(path.stat().st_mode & 0o777) for path in folders} == dict.fromkeys(folders, oct(0o700))


def test_a_warm_run_in_a_new_home_leaves_folders_that_warm_status_accepts(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "true"))))
    home = {"VCJOB_HOME": str(tmp_path / "deep" / "home")}
    assert verb("run", "--warm", "job.yaml", **home, cwd=tmp_path).returncode == 0
    status = verb("warm", "status", **home, cwd=tmp_path)
    assert status.returncode == 0, status.stderr
    for folder in ("deep", "deep/home", "deep/home/warm"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


def test_a_home_of_somebody_else_is_named_with_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    monkeypatch.setenv("HOME", str(tmp_path))
    error = files.cannot_write(str(tmp_path / "x" / "y"), PermissionError(errno.EACCES, "Permission denied"))
    assert error.hint and "belongs to" in error.hint and "you are user 12345" in error.hint
    assert f"HOME is {tmp_path}" in error.hint and "VCJOB_HOME" in error.hint


def test_doctor_and_run_agree_about_missing_gpus(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/bin")
    check = next(check for check in doctor.examine() if check.topic == "GPUs")
    assert "`vcjob run` rejects Jobs that request nvidia.com/gpu" in check.message
    with pytest.raises(BackendError, match="this machine has 0"):
        start(job(task("a", container("true", resources={"limits": {"nvidia.com/gpu": 1}}))))
