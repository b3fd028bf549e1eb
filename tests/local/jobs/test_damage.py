"""Damaged files: what can be shown is shown, the damaged run is named with the way to remove it, and no other job is affected."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, eventually, job, kill_supervisor, task, texts
from vcjob.errors import RunDamaged
from vcjob.local.machine import files
from vcjob.local.run.run_dir import Event, RunDir
from vcjob.sdk.local.handle import LocalHandle
from vcjob.sdk.local_backend import LocalBackend
from vcjob.ui import jobs

FILES = ("job.json", "status.json", "pods.json", "events", "config.json")

DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _data: b"",
    "torn": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "not UTF-8": lambda _data: b'{"a": "\xff\xfe"}\n',
    "another type": lambda _data: b"[1, 2]\n",
    "an empty object": lambda _data: b"{}\n",
    "wrong fields": lambda _data: b'{"metadata": 3, "spec": [], "state": 7, "conditions": "x", "time": []}\n',
}


@pytest.fixture
def two_jobs(finish: Start) -> tuple[LocalHandle, LocalHandle]:
    return (
        finish(job(task("a", "echo good"), name="good")),
        finish(job(task("a", "echo hello; exit 3"), name="bad")),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_damage_of_one_run_affects_another_or_ends_in_a_traceback(
    two_jobs: tuple[LocalHandle, LocalHandle], name: str
) -> None:
    good, bad = two_jobs
    path = Path(bad.folder, name)
    whole = path.read_bytes() if path.exists() else b""
    for kind, damaged in DAMAGE.items():
        path.write_bytes(damaged(whole))
        listed = {each.name: each for each in vcjob.jobs()}
        assert sorted(listed) == ["bad", "good"], kind
        assert listed["good"].phase == "Completed" and texts(listed["good"]) == ["good"], kind
        assert good.to_dict()["status"]["succeeded"] == 1
        handle = vcjob.find("bad")
        for use in (handle.status, handle.pods, handle.events, handle.to_dict, handle.failure, handle.notes):
            try:
                use()
            except RunDamaged as error:
                assert str(path) in error.message and bad.uid in error.message, kind
                assert error.hint and f"vcjob delete {bad.uid}" in error.hint
        if name != "job.json":
            assert "hello" in texts(handle), kind
    vcjob.find("bad").delete()
    assert [each.name for each in vcjob.jobs()] == ["good"]


def test_list_shows_all_jobs_and_names_the_damaged_one(two_jobs: tuple[LocalHandle, LocalHandle]) -> None:
    _good, bad = two_jobs
    Path(bad.folder, "job.json").write_bytes(b"")
    listed = verb("list")
    assert listed.returncode == 0
    assert "Completed" in listed.stdout and "Damaged" in listed.stdout
    assert bad.uid in listed.stderr and f"vcjob delete {bad.uid}" in listed.stderr
    as_json = verb("list", "-o", "json")
    assert '"good"' in as_json.stdout and bad.uid in as_json.stderr
    assert verb("delete", bad.uid).returncode == 0
    assert "bad" not in verb("list").stdout


@pytest.mark.parametrize("name", ["job.json", "status.json"])
def test_a_file_that_cannot_be_opened_affects_no_other_job(
    two_jobs: tuple[LocalHandle, LocalHandle], name: str
) -> None:
    """A folder in its place stands for a file of another user: this test may run as root, who may read everything."""
    _good, bad = two_jobs
    path = Path(bad.folder, name)
    path.unlink()
    path.mkdir()
    listed = verb("list")
    assert listed.returncode == 0
    assert "Completed" in listed.stdout and "Damaged" in listed.stdout
    assert f"warning: the job store cannot be read: {path}" in listed.stderr and "None" not in listed.stderr
    assert {row["name"]: row["phase"] for row in jobs.summaries(LocalBackend(), None)} == {
        "good": "Completed",
        "bad": jobs.DAMAGED,
    }
    finished = verb("delete", "--finished")
    assert finished.returncode == 0 and "good: deleted\n" in finished.stdout
    assert verb("delete", bad.uid).stdout == "bad: deleted\n" or name == "job.json"
    assert vcjob.jobs() == []


def test_a_namespace_that_cannot_be_listed_affects_no_other_job(finish: Start) -> None:
    """A loop of links stands for a folder of another user."""
    good = finish(job(task("a", "true"), name="good"))
    path = Path(good.folder).parents[2] / "theirs"
    path.symlink_to(path)
    listed = verb("list")
    assert listed.returncode == 0 and "good" in listed.stdout
    assert any(
        line.split()[:2] == ["?", "Damaged"] and "theirs" in line for line in listed.stdout.splitlines()
    )
    assert f"warning: the job store cannot be read: {path}" in listed.stderr
    assert verb("status", good.uid).returncode == 0
    assert verb("delete", "--finished").stdout == "good: deleted\n"
    path.unlink()


def test_a_status_that_cannot_be_read_is_said_with_its_file(
    two_jobs: tuple[LocalHandle, LocalHandle],
) -> None:
    _good, bad = two_jobs
    Path(bad.folder, "status.json").write_bytes(b"")
    status = vcjob.find("bad").status()
    assert status.state.reason == "StatusDamaged" and "status.json" in status.state.message
    shown = verb("status", "bad")
    assert (
        shown.returncode == 0 and "status.json" in shown.stdout and f"vcjob delete {bad.uid}" in shown.stdout
    )


def test_a_damaged_record_of_pods_still_shows_pods_and_logs(
    two_jobs: tuple[LocalHandle, LocalHandle],
) -> None:
    _good, bad = two_jobs
    Path(bad.folder, "pods.json").write_bytes(b"")
    shown = verb("status", "bad")
    assert "bad-a-0" in shown.stdout and "pods.json" in shown.stdout
    assert "hello" in verb("logs", "bad").stdout


def test_a_torn_event_is_left_out_and_said(two_jobs: tuple[LocalHandle, LocalHandle]) -> None:
    run = RunDir(two_jobs[1].folder)
    before = [event.reason for event in run.events()]
    with open(run.path("events"), "ab") as file:
        file.write(b'{"time": 2, "ty')  # as a full disk leaves it
    run.add_event(Event(3.0, "Normal", "Later", "later"))
    assert [event.reason for event in run.events()] == [*before, "Later", "EventsDamaged"]
    shown = verb("events", "bad")
    assert shown.returncode == 0 and "Later" in shown.stdout and "EventsDamaged" in shown.stdout


@pytest.mark.slow
def test_a_new_run_can_replace_a_damaged_one(
    two_jobs: tuple[LocalHandle, LocalHandle], finish: Start
) -> None:
    for name in FILES:
        Path(two_jobs[1].folder, name).write_bytes(b"")
    assert finish(job(task("a", "true"), name="bad")).phase == "Completed"


def test_a_damaged_command_does_not_block_the_others(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    run = RunDir(handle.folder)
    files.make_folder(run.path("commands"))
    Path(run.path("commands", "x.json")).write_bytes(b"{")
    handle.stop()
    assert handle.wait(PATIENCE) == "Terminated"


def test_a_status_that_is_damaged_while_the_job_runs_is_written_again(start: Start, tmp_path: Path) -> None:
    handle = start(job(task("a", "while [ ! -e go ]; do sleep 0.02; done")))
    eventually(lambda: handle.phase == "Running")
    for name in ("status.json", "pods.json", "config.json"):
        Path(handle.folder, name).write_bytes(b"")
    assert handle.phase == "Running"
    (tmp_path / "go").touch()
    assert handle.wait(PATIENCE) == "Completed"
    assert handle.trouble() == ""


def test_the_last_record_of_pods_is_written_durably(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its end nobody writes it again: a power cut must not leave an empty file."""
    from vcjob.local.supervisor.pods import Pods

    written: list[bool] = []
    pods = Pods.__new__(Pods)
    pods.record, pods.dirty = {}, False
    pods._run = RunDir("")
    monkeypatch.setattr(RunDir, "write_pods", lambda _run, _pods, *, durable=False: written.append(durable))
    pods.write()
    pods.write(last=True)
    assert written == [True]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_a_signal_never_loses_the_supervisor(start: Start, number: signal.Signals) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    kill_supervisor(handle, number)
    if number == signal.SIGHUP:
        kill_supervisor(handle, signal.SIGTERM)
    assert handle.wait(PATIENCE) == "Terminated"


def test_a_signal_before_the_supervisor_has_its_run_is_not_lost(tmp_path: Path, start: Start) -> None:
    from vcjob.local.machine import process
    from vcjob.local.supervisor.prestart import PrestartedSupervisor

    prestarted = PrestartedSupervisor()
    pids = eventually(lambda: process.marked(process.MARK_RUN, prestarted.uid))
    for number in (signal.SIGHUP, signal.SIGINT):
        for pid in pids:
            os.kill(pid, number)
    assert process.marked(process.MARK_RUN, prestarted.uid)
    prestarted.close()
    eventually(lambda: not process.marked(process.MARK_RUN, prestarted.uid))
