"""Deleting and expiring runs: exactly the named run is removed, under the lock, whoever else works on the job."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

import vcjob
from tests.command_line import background, verb
from tests.local.conftest import PATIENCE, Start, eventually, job, left_behind, task
from tests.local.jobs.test_store import create
from vcjob.errors import JobExists, NoSuchJob, StoreError
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.store import Store
from vcjob.local.machine import process
from vcjob.local.run import locks
from vcjob.local.run.run_dir import RunDir

LASTING = job(task("a", "sleep 600"))


def test_deleting_an_earlier_run_by_its_uid_leaves_the_running_one(finish: Start, start: Start) -> None:
    old = finish(job(task("a", "true")))
    new = start(LASTING)
    eventually(lambda: new.phase == "Running")
    assert verb("delete", old.uid).returncode == 0
    assert vcjob.find("job").uid == new.uid and vcjob.find("job").phase == "Running"
    assert left_behind(new) and new.earlier_runs() == []
    with pytest.raises(NoSuchJob):
        vcjob.find(old.uid)


def test_deleting_an_old_handle_leaves_the_newer_run(finish: Start) -> None:
    old = finish(job(task("a", "true")))
    new = finish(job(task("a", "echo new")))
    old.delete()
    old.delete()  # a second time does no harm
    assert vcjob.find("job").uid == new.uid
    assert [line.text for line in new.logs()] == ["new"]


def test_deleting_the_newest_run_removes_the_job_with_its_earlier_runs(finish: Start) -> None:
    old, new = finish(job(task("a", "true"))), finish(job(task("a", "true")))
    new.delete()
    assert vcjob.jobs() == [] and not os.path.exists(old.folder)
    assert not os.path.exists(os.path.dirname(new.folder))


def test_asking_for_an_expired_earlier_run_leaves_the_running_one(finish: Start, start: Start) -> None:
    old = finish(job(task("a", "true"), ttlSecondsAfterFinished=0))
    new = start(LASTING)
    result = verb("status", old.uid)
    assert result.returncode == 2 and "ttlSecondsAfterFinished" in result.stderr
    assert vcjob.find("job").uid == new.uid and left_behind(new)


def test_a_run_that_starts_while_the_old_one_expires_is_kept() -> None:
    """The decision is made under the lock: what was the newest run before it may be an earlier one by then."""
    store = Store()
    old = create(store, ttlSecondsAfterFinished=0)
    old.write_status(Status(state=State(Phase.COMPLETED), finished=1.0))
    new = create(store)  # between the look at `old` and its removal
    assert store.delete_expired(old)
    assert store.current("job").uid == new.uid and not old.exists()


def test_a_supervised_run_is_never_removed() -> None:
    store = Store()
    run = create(store, ttlSecondsAfterFinished=0)
    run.write_status(Status(state=State(Phase.COMPLETED), finished=1.0))
    lock = run.lock()
    assert lock is not None
    with pytest.raises(JobExists, match="still running"):
        store.delete(run)
    assert not store.delete_expired(run)
    os.close(lock)
    assert store.delete_expired(run)


def test_a_deletion_waits_for_a_verb_that_settles_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.local.jobs.store._LOCK_WAIT", 0.0)
    store = Store()
    run, waits = create(store), threading.Event()
    settling = RunDir.settling

    def waiting(each: RunDir) -> AbstractContextManager[None]:
        waits.set()
        return settling(each)

    with run.settling():
        lock = run.lock()
        assert lock is not None
        monkeypatch.setattr(RunDir, "settling", waiting)
        deletion = threading.Thread(target=store.delete, args=(run,))
        deletion.start()
        eventually(lambda: waits.is_set() or not deletion.is_alive())
        os.close(lock)
    deletion.join()
    assert not run.exists()


def test_a_run_that_somebody_follows_does_not_expire() -> None:
    store = Store()
    run = create(store, ttlSecondsAfterFinished=0)
    run.write_status(Status(state=State(Phase.COMPLETED), finished=1.0))
    with run.watching():
        assert not store.delete_expired(run)
    assert store.delete_expired(run)


@pytest.mark.parametrize("damaged", [False, True], ids=["readable", "damaged"])
def test_deleting_a_lost_run_ends_its_processes(start: Start, damaged: bool) -> None:
    """Also where its status is damaged: without the run's folder no later verb could find them."""
    handle = start(job(task("a", "setsid sleep 600 & sleep 600")))
    eventually(lambda: [process.name_of(pid) for pid in left_behind(handle)].count("sleep") == 2)
    ours = [pid for pid in left_behind(handle) if process.name_of(pid).startswith("vcjob-")]
    for number in (
        signal.SIGSTOP,
        signal.SIGKILL,
    ):  # first stopped: whichever outlives the other ends the pod
        for pid in ours:
            os.kill(pid, number)
    eventually(lambda: not handle.supervised)
    assert left_behind(handle)
    if damaged:
        Path(handle.folder, "status.json").write_bytes(b"")
    handle.delete()
    assert left_behind(handle) == []
    assert vcjob.jobs() == []


@pytest.mark.slow
def test_run_reports_its_result_with_a_ttl_of_zero_while_others_list(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(
        vcjob.to_yaml(job(task("a", "sleep 0.3; exit 7"), ttlSecondsAfterFinished=0))
    )
    stop = threading.Event()

    def listing() -> None:
        while not stop.is_set():
            vcjob.jobs()

    thread = threading.Thread(target=listing)
    thread.start()
    try:
        for _ in range(3):
            with background(tmp_path, "run", "job.yaml") as command:
                output, _ = command.communicate(timeout=PATIENCE)
            assert command.returncode == 1, output
            assert "exit code 7" in output
    finally:
        stop.set()
        thread.join()


def test_a_job_that_another_shell_deleted_is_no_damaged_store(finish: Start) -> None:
    handle = finish(job(task("a", "true")))
    vcjob.find("job").delete()
    for use in (lambda: handle.wait(1), handle.pods, handle.status, handle.stop):
        with pytest.raises(NoSuchJob, match="deleted"):
            use()
    assert "deleted" in repr(handle)


@pytest.mark.slow
def test_racing_deletes_and_creations_lose_nothing() -> None:
    """Four processes delete and create one name as fast as they can; every verb ends in a defined way."""
    store = Store()
    create(store)  # the folders of the home exist
    deadline = time.monotonic() + 2.0
    children = []
    for number in range(4):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                while time.monotonic() < deadline:
                    if number % 2:
                        try:
                            create(store)
                        except JobExists:
                            pass
                    for run in store.all():
                        store.delete(run)
                code = 0
            finally:
                os._exit(code)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    for run in store.all():
        store.delete(run)
    assert not os.path.exists(os.path.join(store.folder, "jobs", "default", "job"))
    assert isinstance(create(store), RunDir)


def test_an_interrupted_removal_is_finished_by_the_next_one() -> None:
    store = Store()
    run = create(store)
    os.rename(run.folder, run.folder + ".removed")  # as a kill between the two steps leaves it
    assert store.all() == [] and store.by_uid(run.uid) is None
    again = create(store)
    assert os.listdir(os.path.dirname(run.folder)) and not os.path.exists(run.folder + ".removed")
    assert [each.uid for each in store.all()] == [again.uid]


def test_the_files_of_a_deleted_run_are_removed_without_the_lock_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Removing large logs takes long, and may be stopped with Ctrl-Z: the name must stay usable."""
    store = Store()
    run = create(store)
    folder = os.path.dirname(run.folder)
    remove, free = shutil.rmtree, []

    def removing(path: str, ignore_errors: bool = False) -> None:
        lock = locks.try_hold(os.path.join(folder, "lock"), 0.0)
        free.append(lock is not None)
        if lock is not None:
            os.close(lock)
        remove(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", removing)
    store.delete(run)
    assert free == [True]
    assert not os.path.exists(folder)


def test_a_lock_that_a_stopped_command_holds_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.path.join(os.path.dirname(create(Store()).folder), "lock")
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(task("a", "true"))))
    lock = locks.hold(path)
    monkeypatch.setattr(locks, "hold", partial(locks.hold, wait=0.05))
    try:
        refused = verb("run", str(tmp_path / "job.yaml"))
    finally:
        os.close(lock)
    assert refused.returncode == StoreError.exit_code
    assert f"error: another vcjob command has held {path}" in refused.stderr and "Ctrl-Z" in refused.stderr
    assert verb("run", str(tmp_path / "job.yaml")).returncode == 0


def test_a_lost_link_to_the_newest_run_is_found_again() -> None:
    store = Store()
    create(store)
    newest = create(store)
    os.utime(newest.path("given.yaml"), ns=(1 << 62, 1 << 62))
    link = os.path.join(os.path.dirname(newest.folder), "current")
    os.unlink(link)
    assert store.current("job").uid == newest.uid
    Path(link).write_text("")
    assert [run.uid for run in store.all()] == [newest.uid]
    store.delete(newest)
    assert store.all() == []


def test_the_wait_for_a_deleted_job_ends(start: Start) -> None:
    handle = start(LASTING)
    eventually(lambda: handle.phase == "Running")
    outcome: list[BaseException | str] = []

    def wait() -> None:
        try:
            outcome.append(handle.wait(PATIENCE))
        except NoSuchJob as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    vcjob.find("job").delete()
    thread.join(PATIENCE)
    assert outcome and (outcome[0] == "Terminated" or isinstance(outcome[0], NoSuchJob))


def test_a_job_that_has_just_ended_can_be_deleted_while_its_supervisor_still_exits() -> None:
    store = Store()
    run = create(store)
    lock = run.lock()
    assert lock is not None
    run.write_status(Status(state=State(Phase.COMPLETED), finished=1.0))
    releasing = threading.Timer(0.2, os.close, (lock,))
    releasing.start()
    vcjob.find("job").delete()
    releasing.join()
    assert vcjob.jobs() == []


def test_a_probe_at_the_same_time_does_not_keep_a_follower_from_holding_the_run() -> None:
    """Otherwise a run with a TTL of 0 could be removed under whoever follows it."""
    run = create(Store())
    done = threading.Event()

    def probe() -> None:
        while not done.is_set():
            run.watched()

    threads = [threading.Thread(target=probe) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(200):
            with run.watching():
                assert run.watched()
    finally:
        done.set()
        for thread in threads:
            thread.join()
