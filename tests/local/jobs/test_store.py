"""The store: every write whole or not at all; what cannot be written is said in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, eventually, job, left_behind, task
from vcjob.errors import JobExists, NoSuchJob, StoreError
from vcjob.local.jobs.store import Store
from vcjob.local.machine import files
from vcjob.local.run.run_dir import Event, RunConfig, RunDir
from vcjob.sdk.local.handle import LocalHandle


def document(name: str = "job", namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {
        **job(task("a", "true"), name=name, **spec),
        "metadata": {"name": name, "namespace": namespace, "uid": str(uuid.uuid4())},
    }


def create(store: Store, **fields: Any) -> RunDir:
    """A run without a supervisor."""
    run, lock = store.create(document(**fields), RunConfig(), "given")
    os.close(lock)
    return run


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    files.write_atomic(path, b"old")
    files.write_atomic(path, b"new")
    assert Path(path).read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "file")
    files.write_atomic(path, b"old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(StoreError, match="No space left on device") as refusal:
        files.write_atomic(path, b"new")
    assert refusal.value.hint and "VCJOB_HOME" in refusal.value.hint
    assert Path(path).read_bytes() == b"old" and os.listdir(tmp_path) == ["file"]


def test_an_unfinished_last_event_is_left_out(tmp_path: Path) -> None:
    run = RunDir(str(tmp_path))
    run.add_event(Event(1.0, "Normal", "A", "one"))
    with open(run.path("events"), "ab") as file:
        file.write(b'{"time": 2, "ty')
    assert [event.reason for event in run.events()] == ["A"]


def test_a_damaged_file_is_named() -> None:
    store = Store()
    run = create(store)
    Path(run.path("status.json")).write_text("{")
    with pytest.raises(StoreError, match=r"damaged: .*status\.json"):
        run.status()


@pytest.mark.parametrize(("namespace", "named"), [("default", "job"), ("team", "job -n team")])
def test_a_name_in_use_is_refused_with_commands_that_find_its_job(namespace: str, named: str) -> None:
    store = Store()
    _, lock = store.create(document(namespace=namespace), RunConfig(), "")
    with pytest.raises(JobExists) as refused:
        store.create(document(namespace=namespace), RunConfig(), "")
    os.close(lock)
    assert f"`vcjob status {named}`, end it with `vcjob stop {named}`" in (refused.value.hint or "")


def test_a_held_run_cannot_be_replaced_and_a_released_one_can() -> None:
    store = Store()
    run, lock = store.create(document(), RunConfig(), "")
    assert run.supervised()
    with pytest.raises(JobExists):
        store.create(document(), RunConfig(), "")
    os.close(lock)
    second = create(store)
    assert store.current("job").uid == second.uid
    assert [old.uid for old in store.older("job")] == [run.uid]


def test_names_of_different_namespaces_are_different_jobs() -> None:
    store = Store()
    one, other = create(store), create(store, namespace="team")
    assert store.current("job").uid == one.uid
    assert store.current("job", "team").uid == other.uid
    store.delete(one)
    assert [run.uid for run in store.all()] == [other.uid]


def test_commands_are_kept_until_they_are_forgotten() -> None:
    run = create(Store())
    first, second = run.send("AbortJob", 1.0), run.send("ResumeJob", 2.0)
    assert [command.uid for command in run.commands()] == [first.uid, second.uid]
    run.forget_command(first.uid)
    run.forget_command(first.uid)
    assert [command.action for command in run.commands()] == ["ResumeJob"]


def test_a_request_to_a_run_that_was_deleted_does_not_create_its_folder_again() -> None:
    run = create(Store())
    Store().delete(run)
    with pytest.raises(NoSuchJob, match="deleted"):
        run.send("AbortJob", 1.0)
    assert not os.path.exists(os.path.dirname(run.folder))


def test_earlier_runs_are_known_after_the_clock_was_set_back() -> None:
    store = Store()
    earlier, newest = create(store), create(store)
    os.utime(newest.path("given.yaml"), (1, 1))
    assert [run.uid for run in LocalHandle(newest).earlier_runs()] == [earlier.uid]


def test_commands_that_cannot_be_listed_are_an_error_of_the_store() -> None:
    run = create(Store())
    Path(run.path("commands")).touch()
    with pytest.raises(StoreError, match="commands: Not a directory"):
        run.commands()


def test_the_reason_can_be_recorded_on_a_full_disk() -> None:
    run = create(Store())
    size = os.stat(run.path("trouble")).st_size
    run.set_trouble("no room")
    assert run.trouble() == "no room" and os.stat(run.path("trouble")).st_size == size
    run.set_trouble("")
    assert run.trouble() == ""


def test_the_reason_may_name_a_folder_that_is_not_utf_8() -> None:
    run = create(Store())
    run.set_trouble("no room in /home-\udcff")
    assert run.trouble() == r"no room in /home-\udcff"


def test_a_run_whose_folder_is_removed_ends_with_all_its_processes(start: Start, tmp_path: Path) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    Path(handle.folder).parent.rename(tmp_path / "away")
    eventually(lambda: not left_behind(handle))


def test_a_home_that_is_a_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "true"))))
    result = verb("run", str(tmp_path / "job.yaml"), VCJOB_HOME=str(tmp_path / "home"))
    assert result.returncode == 3
    assert (
        "cannot be written" in result.stderr
        and "VCJOB_HOME" in result.stderr
        and "Traceback" not in result.stderr
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    """A file system of one megabyte, where this user may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    ).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["mount", "-o", "remount,rw", str(place)], capture_output=True, check=False)
    subprocess.run(["umount", "-l", str(place)], check=True)


def _fill(place: Path) -> Path:
    stuffing = place / "stuffing"
    descriptor = os.open(stuffing, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"x" * 1024)
    except OSError:
        os.close(descriptor)
    return stuffing


def test_a_full_disk_is_a_clear_error_at_the_start(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "true"))))
    _fill(small_disk)
    result = verb("run", str(tmp_path / "job.yaml"), VCJOB_HOME=str(small_disk / "home"))
    assert result.returncode == 3
    assert "No space left on device" in result.stderr and "Traceback" not in result.stderr


def test_a_job_that_ends_on_a_full_disk_records_its_end_in_the_reserved_room(
    start: Start, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(job(task("a", "while [ ! -e go ]; do sleep 0.05; done; exit 3")))
    eventually(lambda: handle.status().running == 1)
    _fill(small_disk)
    (tmp_path / "go").touch()
    assert handle.wait(PATIENCE) == "Failed"
    assert [pod.phase for pod in handle.pods()] == ["Failed"]
    assert left_behind(handle) == [] and not os.path.exists(os.path.join(handle.folder, "reserve"))


@pytest.mark.slow
@pytest.mark.parametrize("now", [False, True])
@pytest.mark.parametrize("reserved", [True, False])
def test_a_job_on_a_full_disk_can_be_stopped(
    start: Start, small_disk: Path, monkeypatch: pytest.MonkeyPatch, now: bool, reserved: bool
) -> None:
    """By a command in the reserved room; without any room by a signal. Its supervisor ends too."""
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.status().running == 1)
    if not reserved:
        os.unlink(os.path.join(handle.folder, "reserve"))
    _fill(small_disk)
    if now:
        handle.stop(now=True)
    else:
        stopped = verb("stop", "job")
        assert stopped.returncode == 0, stopped.stderr
    phase = handle.wait(PATIENCE)
    assert left_behind(handle) == []
    message = handle.status().state.message
    if reserved or "TerminateJob was requested" in message:  # others may have freed some room
        assert phase == "Terminated"
    else:
        assert phase in ("Terminated", "Failed") and "No space left" in message
    handle.delete()
    assert vcjob.jobs() == []


@pytest.mark.slow
def test_ctrl_c_ends_a_job_on_a_full_disk(small_disk: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "echo up; sleep 600"))))
    with subprocess.Popen(
        [sys.executable, "-m", "vcjob.cli.main", "run", "job.yaml"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "VCJOB_HOME": str(small_disk / "home")},
    ) as command:  # fmt: skip
        assert command.stdout is not None and "up" in command.stdout.readline()
        for reserve in small_disk.rglob("reserve"):
            reserve.unlink()
        _fill(small_disk)
        command.send_signal(signal.SIGINT)
        out, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130 and "Traceback" not in err, (out, err)


@pytest.mark.slow
def test_a_job_that_waits_for_room_says_so_in_its_message(
    start: Start, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line `still Pending: …` shows this message again and again."""
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(job(task("a", "true"), task("b", "sleep 1", dependsOn={"name": ["a"]})))
    os.unlink(os.path.join(handle.folder, "reserve"))
    stuffing = _fill(small_disk)
    eventually(lambda: "No space left" in handle.status().state.message)
    follower = handle.follow()
    follower.poll()
    assert "No space left" in follower.status.state.message and follower.has_trouble()
    follower.close()
    stuffing.unlink()
    assert handle.wait(PATIENCE) == "Completed"
    assert handle.trouble() == "" and "No space" not in handle.status().state.message


@pytest.mark.slow
def test_a_disk_that_fills_up_is_reported_and_the_job_ends_when_there_is_room_again(
    start: Start, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(job(task("a", "while [ ! -e go ]; do sleep 0.05; done")))
    eventually(lambda: handle.status().running == 1)
    os.unlink(os.path.join(handle.folder, "reserve"))
    stuffing = _fill(small_disk)
    (tmp_path / "go").touch()
    eventually(lambda: "No space left on device" in handle.trouble())
    assert handle.phase == "Running"  # the last thing that could be written; the trouble says that it is old
    assert "No space left" in verb("status", "job").stdout
    stuffing.unlink()
    assert handle.wait(PATIENCE) == "Completed"
    assert left_behind(handle) == []


def test_a_read_only_store_can_be_read_and_says_why_it_cannot_be_written(
    start: Start, small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(job(task("a", "echo hello")))
    handle.wait(PATIENCE)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "Completed" in verb("status", "job").stdout
    assert "hello" in verb("logs", "job").stdout
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "true"))))
    result = verb("run", str(tmp_path / "job.yaml"))
    assert result.returncode == 3 and "Read-only file system" in result.stderr
    deleted = verb("delete", "job")
    assert deleted.returncode == 3 and "Traceback" not in deleted.stderr


def test_a_rank_that_hits_a_full_disk_fails_with_its_own_error(
    start: Start, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(small_disk / "home"))
    handle = start(
        job(
            task(
                "a",
                "dd if=/dev/zero bs=1024 count=4096 2>/dev/null; dd if=/dev/zero bs=1024 count=4096 of=/dev/stderr; exit 5",
            )
        )
    )
    eventually(lambda: handle.trouble() or handle.done)
    eventually(
        lambda: not [pid for pid in left_behind(handle) if "dd" in Path(f"/proc/{pid}/comm").read_text()]
    )
    for log in Path(handle.folder).rglob("*.out"):
        log.unlink()
    assert handle.wait(PATIENCE) == "Failed"


@pytest.mark.parametrize("name", ["job-worker-0", "job-a-b-12"])
def test_the_name_of_a_pod_is_answered_with_that_of_its_job(name: str) -> None:
    store = Store()
    create(store)
    with pytest.raises(NoSuchJob) as refused:
        store.current(name)
    assert refused.value.hint == "for a pod of the job 'job', give that name"
    for other in ("job-0", "job-worker", "jobs-worker-0", "job--0"):
        with pytest.raises(NoSuchJob) as refused:
            store.current(other)
        assert refused.value.hint == "`vcjob list` shows the jobs that exist"


@pytest.mark.parametrize("name", ["", ".", "..", "../default/job", "/{planted}", "a\0b"])
def test_a_name_never_leads_out_of_the_store(tmp_path: Path, name: str) -> None:
    """Names arrive from the web page too; a run that another user has planted is not the store's."""
    store, planted = Store(str(tmp_path / "home")), Store(str(tmp_path / "planted"))
    create(store)
    run = create(planted)
    wanted = name.format(planted=os.path.dirname(run.folder).lstrip("/"))
    for read in (store.current, store.older):
        with pytest.raises(NoSuchJob):
            read(wanted)
        with pytest.raises(NoSuchJob):
            read("job", wanted)
    assert store.by_uid(run.folder) is None
