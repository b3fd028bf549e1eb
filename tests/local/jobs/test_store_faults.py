"""A fault at every write of the store, one after the other: the other jobs stay as they are, and the job in question can
be listed, deleted and created again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

import vcjob
from tests.local.conftest import PATIENCE, job, left_behind, task
from tests.local.jobs.faults import FAULTS, Fault, count_operations, strike
from tests.local.jobs.test_store import create, document
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.recovery import settle
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import Event, RunConfig, RunDir
from vcjob.local.supervisor import supervisor
from vcjob.report.podstate import PodState

pytestmark = pytest.mark.long

OTHERS = ("first", "second")
ENDED = Status(state=State(Phase.COMPLETED, "Succeeded"), succeeded=1, finished=1.0)


@pytest.fixture
def store() -> Store:
    """A store with two jobs that have nothing to do with the test."""
    made = Store()
    for name in OTHERS:
        _ended(create(made, name=name))
    return made


def _ended(run: RunDir) -> RunDir:
    run.write_pods([PodState(task="a", index=0, name=f"{run.name}-a-0", uid="u", version=0, attempt=0)])
    run.add_event(Event(1.0, "Normal", "Done", "done"))
    run.write_status(ENDED)
    return run


def _check_others() -> None:
    """Every other job is listed and complete; the victim, if it is listed, can be shown without a surprise."""
    listed = {handle.name: handle for handle in vcjob.jobs()}
    assert set(OTHERS) <= set(listed) <= {*OTHERS, "job"}
    for name in OTHERS:
        handle = listed[name]
        assert handle.phase == "Completed" and handle.status().succeeded == 1
        assert [pod.name for pod in handle.pods()] == [f"{name}-a-0"]
        assert [event["reason"] for event in handle.events()] == ["Done"]
        assert handle.to_dict()["metadata"]["name"] == name
    if "job" in listed:
        handle = listed["job"]
        assert handle.phase in ("Pending", "Running", "Completed", "Failed", "Terminated"), handle.phase
        handle.pods(), handle.events(), handle.to_dict(), handle.earlier_runs()


def _check_repair(store: Store) -> None:
    """The name can be used again at once, and a deletion leaves nothing of it, half files included."""
    again = create(store)
    assert store.current("job").uid == again.uid
    store.delete(again)
    assert sorted(os.listdir(os.path.join(store.folder, "jobs", "default"))) == list(OTHERS)


Work = Callable[[Store], Callable[[], object]]


def _creating(store: Store) -> Callable[[], object]:
    return lambda: store.create(document(), RunConfig(env={"A": "b"}), "given")


def _creating_again(store: Store) -> Callable[[], object]:
    _ended(create(store))
    return _creating(store)


def _deleting(store: Store) -> Callable[[], object]:
    _ended(create(store))
    run = _ended(create(store))
    return lambda: store.delete(run)


def _expiring(store: Store) -> Callable[[], object]:
    run = _ended(create(store, ttlSecondsAfterFinished=0))
    return lambda: store.delete_expired(run)


def _settling(store: Store) -> Callable[[], object]:
    run = create(store)
    run.write_status(Status(state=State(Phase.RUNNING)))
    run.send("AbortJob", 1.0)
    return lambda: settle(run)


def _sending(store: Store) -> Callable[[], object]:
    run = create(store)
    return lambda: run.send("TerminateJob", time.time())


def _recording(store: Store) -> Callable[[], object]:
    run = create(store)

    def record() -> None:
        for number in range(2):
            run.write_status(Status(state=State(Phase.RUNNING), version=number))
            run.write_pods([PodState(task="a", index=0, name="job-a-0", uid="u", version=number, attempt=0)])
            run.add_event(Event(1.0, "Normal", "Step", "x" * 100))
        run.write_pods([], durable=True)
        run.forget_environment()

    return record


WORKS: dict[str, Work] = {
    "create": _creating,
    "create a second run": _creating_again,
    "delete": _deleting,
    "expire": _expiring,
    "settle": _settling,
    "send a command": _sending,
    "record": _recording,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("what", list(WORKS))
def test_a_fault_at_any_write_affects_only_the_run_that_was_written(
    store: Store, what: str, fault: Fault
) -> None:
    prepare = WORKS[what]
    total = count_operations(prepare(store), fault)
    for number in range(1, total + 1):
        for lasting in (False, True) if fault not in ("kill", "torn") else (False,):
            _delete_job()
            outcome = strike(prepare(store), fault, number, lasting=lasting)
            assert outcome in ((-9,) if fault in ("kill", "torn") else (0, 3)), (number, lasting)
            _check_others()
            _check_repair(store)
    minimum = 0 if fault in ("torn", "ENOLCK", "EMFILE") else 1
    assert total >= minimum


def _supervise(run: RunDir) -> Callable[[], object]:
    def work() -> None:
        lock = run.lock()
        assert lock is not None
        os.setsid()
        os.environ["VCJOB_RUN_UID"] = run.uid
        if lock != 3:
            os.dup2(lock, 3)
            os.close(lock)
        code = supervisor.main(run.folder)
        if code:
            os._exit(code)

    return work


def _real_job(store: Store) -> RunDir:
    made = {**job(task("a", "echo hello")), "metadata": document()["metadata"]}
    run, lock = store.create(made, RunConfig(env=dict(os.environ), cwd="/"), "given")
    os.close(lock)
    return run


@pytest.mark.parametrize(
    "fault",
    ["kill", pytest.param("ENOSPC", marks=pytest.mark.long), pytest.param("EIO", marks=pytest.mark.long)],
)
def test_a_fault_at_any_write_of_a_supervisor_affects_only_its_own_run(store: Store, fault: Fault) -> None:
    """After one failed write the job still runs to its end; after a kill the next verb says so. Nothing is left running."""
    total = count_operations(_supervise(_real_job(store)), fault)
    assert total > 10
    for number in range(1, total + 1):
        _delete_job()
        run = _real_job(store)
        outcome = strike(_supervise(run), fault, number)
        handle = vcjob.find("job")
        phase = handle.wait(PATIENCE)
        assert phase in ("Completed", "Failed"), number
        if fault != "kill" and outcome == 0:
            assert phase == "Completed", (number, handle.status().state)
        assert left_behind(handle) == [], number
        _check_others()
    _delete_job()
    _check_repair(store)


def _delete_job() -> None:
    for handle in vcjob.jobs():
        if handle.name == "job":
            handle.delete()
