"""Verbs whose request a stopped supervisor does not handle: none reports success, and `delete` needs no answer."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partialmethod

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import Start, eventually, job, kill_supervisor, left_behind, task
from vcjob.errors import BackendError
from vcjob.local.jobs.requests import supervisor_of
from vcjob.local.run.run_dir import RunDir
from vcjob.sdk.local.handle import LocalHandle


@pytest.fixture
def stopped(start: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHandle]:
    """A running job whose supervisor was stopped with SIGSTOP. Verbs do not wait long for it."""
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    kill_supervisor(handle, signal.SIGSTOP)
    short = partialmethod(LocalHandle.wait_for_command, 0.1)
    monkeypatch.setattr(LocalHandle, "wait_for_command", short)
    yield handle
    pid = supervisor_of(RunDir(handle.folder))
    if pid is not None:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("words", [("suspend",), ("restart",), ("complete",), ("stop", "--no-wait")])
def test_a_request_that_nobody_handles_is_an_error(stopped: LocalHandle, words: tuple[str, ...]) -> None:
    result = verb(*words, "job")
    assert result.returncode == BackendError.exit_code and result.stdout == ""
    pid = supervisor_of(RunDir(stopped.folder))
    assert f"error: the supervisor of the job 'job' (process {pid}) has not handled" in result.stderr
    assert f"kill -CONT {pid}" in result.stderr


def test_a_request_is_handled_when_the_supervisor_continues(stopped: LocalHandle) -> None:
    assert verb("suspend", "job").returncode == BackendError.exit_code
    kill_supervisor(stopped, signal.SIGCONT)
    eventually(lambda: stopped.phase == "Aborted")


def test_delete_kills_a_supervisor_that_does_not_answer(stopped: LocalHandle) -> None:
    result = verb("delete", "job")
    assert (result.returncode, result.stdout) == (0, "job: deleted\n")
    assert vcjob.jobs() == [] and left_behind(stopped) == []
