"""The cleanup at the end of a run: whatever interrupts it, the next verb completes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.conftest import Start, eventually, job, task
from tests.local.jobs.test_store import document
from vcjob.errors import StoreError
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.recovery import settle
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig, RunDir

SECRET = "do-not-keep-this"


@pytest.fixture
def run() -> RunDir:
    """A run without a supervisor, with a secret in its environment."""
    made, lock = Store().create(document(), RunConfig(env={"TOKEN": SECRET}), "given")
    os.close(lock)
    return made


def _contains_secret(run: RunDir) -> bool:
    return any(SECRET.encode() in file.read_bytes() for file in Path(run.folder).rglob("*") if file.is_file())


def _failing_once(monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    real: Callable[..., object] = getattr(RunDir, method)

    def failing(run: RunDir, *args: object) -> None:
        monkeypatch.setattr(RunDir, method, real)
        raise StoreError("the disk is full")

    monkeypatch.setattr(RunDir, method, failing)


def test_a_run_that_ends_leaves_no_environment(finish: Start) -> None:
    handle = finish(job(task("a", "true")), env={"TOKEN": SECRET, "PATH": os.environ["PATH"]})
    eventually(lambda: not handle.supervised)
    assert not _contains_secret(RunDir(handle.folder))


def test_the_next_verb_completes_the_cleanup_of_a_supervisor_that_was_killed(run: RunDir) -> None:
    over = Status(state=State(Phase.COMPLETED, "Succeeded"), succeeded=1, finished=1.0)
    run.write_status(over)  # the supervisor was killed after this
    run.send("AbortJob", 1.0)
    assert _contains_secret(run)
    assert settle(run) == over == run.status()
    assert not _contains_secret(run)
    assert run.commands() == [] and not run.reserve.exists()


@pytest.mark.parametrize("step", ["add_event", "forget_command", "forget_environment"])
def test_the_next_verb_completes_the_cleanup_of_a_verb_that_failed(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    run.write_status(Status(state=State(Phase.RUNNING)))
    run.send("AbortJob", 1.0)
    _failing_once(monkeypatch, step)
    first = settle(run)
    assert "while it was Running" in first.state.message
    assert [condition.phase for condition in first.conditions] == [Phase.FAILED]
    assert settle(run) == first == run.status()
    assert not _contains_secret(run)
    assert run.commands() == [] and not run.reserve.exists()


def test_a_suspended_run_keeps_its_environment(run: RunDir) -> None:
    run.write_status(Status(state=State(Phase.ABORTED)))
    settle(run)
    assert _contains_secret(run) and run.config().env == {"TOKEN": SECRET}


def test_the_environment_of_a_run_of_an_earlier_version_is_read_and_removed(run: RunDir) -> None:
    os.rename(run.path("config.json"), run.path("setting.json"))
    assert run.has_environment() and run.config().env == {"TOKEN": SECRET}
    run.write_status(Status(state=State(Phase.COMPLETED, "Succeeded"), succeeded=1, finished=1.0))
    settle(run)
    assert not _contains_secret(run) and run.config() == RunConfig()
