"""The watch for hangs while a cluster job is followed: what it reads, says once and does. Pods are replaced by reports."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from vcjob.cluster.client.jobs import JobKey
from vcjob.cluster.client.rank_states import ReadStates
from vcjob.diagnosis.observation import Collective, Frame, RankState
from vcjob.errors import BackendError
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.report.podstate import ContainerState, PodState
from vcjob.sdk.cluster import hang_watcher, hangs
from vcjob.sdk.cluster.hang_watcher import HangWatcher
from vcjob.sdk.cluster.hangs import missing_recorder
from vcjob.spec.job import Job

ON = ["--flight-recorder=true"]
MESSAGE = "rank 1 never reached all_reduce #2; rank 0 has waited in it for 60 s"
MISSING = "hangs cannot be detected: add --flight-recorder=true to the arguments of pytorch"
RUNNING = Status(state=State(Phase.RUNNING))
PODS = [
    PodState(
        task, 0, f"j-{task}-0", task, rank=rank, phase="Running", containers=[ContainerState("m", "main")]
    )
    for rank, task in enumerate(("master", "worker"))
]


def document(on_hang: str = "", arguments: Sequence[str] = ON, **spec: Any) -> dict[str, Any]:
    tasks = [
        {"name": name, "replicas": 1, "template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}}
        for name in ("master", "worker")
    ]
    metadata: dict[str, Any] = {"name": "j", "namespace": "team", "uid": "u"}
    if on_hang:
        metadata["annotations"] = {"vcjob.io/on-hang": on_hang}
    return {"metadata": metadata, "spec": {"tasks": tasks, "plugins": {"pytorch": list(arguments)}, **spec}}


def hung() -> list[RankState]:
    now = time.time()
    groups: dict[str, tuple[int, ...]] = {"0": (0, 1)}
    waits = Collective(2, "all_reduce", issued_at=now - 60, done=False)
    done = Collective(1, "all_reduce", issued_at=now - 61)
    return [RankState(0, (done, waits), groups), RankState(1, (done,), groups, idle_since=now - 60)]


class Watched:
    """A watcher whose cluster answers at once with `states`, or with an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, states: list[RankState]) -> None:
        self.states = states
        self.error: BackendError | None = None
        self.sent: list[str] = []
        self.notes: list[str] = []
        self.read: list[int] = []
        for module in (hang_watcher, hangs):
            monkeypatch.setattr(module, "read_rank_states", self._read)
        jobs = SimpleNamespace(send=self._send)
        connection: Any = SimpleNamespace(jobs=jobs, loop=SimpleNamespace(start=self._start))
        self.watcher = HangWatcher(connection, JobKey("j", "team", "u"), self.notes.append)

    def poll(self, job: dict[str, Any], status: Status = RUNNING) -> None:
        """One check: start to read, and take in what was read."""
        self.watcher._due = 0.0
        self.watcher.poll(job, status, PODS)
        self.watcher.poll(job, status, PODS)

    async def _read(self, _jobs: object, pods: Sequence[PodState], _namespace: str) -> ReadStates:
        self.read.append(len(pods))
        if self.error is not None:
            raise self.error
        ranks = {pod.rank for pod in pods}
        return ReadStates([state for state in self.states if state.rank in ranks])

    async def _send(self, _key: JobKey, action: str) -> None:
        self.sent.append(action)

    @staticmethod
    def _start(work: Coroutine[Any, Any, Any]) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(asyncio.run(work))
        return future


@pytest.mark.parametrize(
    ("on_hang", "sent"), [("", []), ("warn", []), ("restart", ["RestartJob"]), ("fail", ["TerminateJob"])]
)
def test_a_hang_is_said_once_and_acted_on_once_per_run(
    on_hang: str, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(monkeypatch, hung())
    for _ in range(3):
        watched.poll(document(on_hang))
    assert watched.notes == [f"{MESSAGE}; on-hang: {on_hang}" if sent else MESSAGE]
    assert watched.sent == sent
    watched.poll(document(on_hang), Status(state=State(Phase.RUNNING), version=1))
    assert watched.sent == sent * 2


def test_while_rank_0_moves_no_other_rank_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    done = tuple(Collective(number, "all_reduce", issued_at=time.time()) for number in range(5))
    watched = Watched(monkeypatch, [RankState(0, done, {"0": (0, 1)})])
    watched.poll(document())
    assert (watched.read, watched.notes) == ([1], [])
    watched.watcher._due = time.monotonic() + 60
    watched.watcher.poll(document(), RUNNING, PODS)
    assert watched.read == [1]  # not before it is due


class Clock:
    """The time of the watcher, in place of the module `time`."""

    now = 1000.0

    def time(self) -> float:
        return self.now

    monotonic = time


@pytest.mark.parametrize("phase", [0.0, 0.1, 2.5, 5.0, 7.5, 9.9])
def test_a_hang_is_said_within_thirty_seconds_at_default_settings(
    phase: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever it begins between two looks. Five of the seconds are left for the reading of the reports."""
    clock = Clock()
    monkeypatch.setattr(hang_watcher, "time", clock)
    watched = Watched(monkeypatch, [])
    began = clock.now + 40 + phase
    groups: dict[str, tuple[int, ...]] = {"0": (0, 1)}
    while not watched.notes and clock.now < began + 60:
        clock.now += 0.2
        done = Collective(1, "all_reduce", issued_at=min(clock.now, began) - 0.1)
        waits = Collective(2, "all_reduce", issued_at=began, done=False)
        idle = began + 4 if clock.now > began + 6 else None  # the agent looks every two seconds
        watched.states = [RankState(0, (done,), groups), RankState(1, (done,), groups, idle_since=idle)]
        if clock.now > began:
            watched.states[0].collectives = (done, waits)
        watched.watcher.poll(document(), RUNNING, PODS)
    assert 20 <= clock.now - began <= 25
    assert len(watched.notes) == 1 and "rank 1 never reached all_reduce #2" in watched.notes[0]
    assert len(watched.read) <= 10  # rank 0 every ten seconds, and then all of them


def test_ranks_that_stand_still_for_long_are_not_read_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 1 compiles for ten minutes, and rank 0 waits for it."""
    clock = Clock()
    monkeypatch.setattr(hang_watcher, "time", clock)
    waits = Collective(2, "all_reduce", issued_at=clock.now, done=False)
    groups: dict[str, tuple[int, ...]] = {"0": (0, 1)}
    watched = Watched(monkeypatch, [RankState(0, (waits,), groups), RankState(1, (), groups)])
    while clock.now < 1600:
        clock.now += 0.2
        watched.watcher.poll(document(), RUNNING, PODS)
    assert watched.notes == [] and len(watched.read) <= 2 * 600 / 10


def test_while_rank_0_waits_for_others_to_join_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It uses a little CPU all the time, so that it is never idle."""
    now = time.time()
    store = Frame("_create_c10d_store", "/site-packages/torch/distributed/rendezvous.py", 226)
    joins = RankState(0, stack=(store,), stack_since=now - 60)
    watched = Watched(monkeypatch, [joins, RankState(1, idle_since=now - 60)])
    watched.poll(document())
    assert watched.read == [1, 2]
    assert watched.notes == [
        "rank 1 has not called init_process_group and has done nothing for 60 s; rank 0 waits there"
    ]


def test_a_job_that_does_not_run_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, hung())
    watched.poll(document("fail"), Status(state=State(Phase.PENDING)))
    assert (watched.read, watched.notes, watched.sent) == ([], [], [])


def test_what_is_missing_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, hung())
    watched.poll(document(arguments=[]))
    assert watched.notes == []  # nobody asked for it
    for _ in range(2):
        watched.poll(document("restart", arguments=[]))
    assert (watched.notes, watched.read) == ([MISSING], [])
    watched.error = BackendError("you may not run commands in pods")
    for _ in range(2):
        watched.poll(document())
    assert watched.notes[1:] == ["hangs cannot be detected: you may not run commands in pods"]


def test_only_jobs_whose_ranks_can_wait_for_each_other_need_the_recorder() -> None:
    single = document(arguments=[])
    single["spec"]["tasks"].pop()
    assert missing_recorder(Job(document())) == ""
    assert missing_recorder(Job(document(arguments=[]))) == MISSING
    assert missing_recorder(Job(single)) is None
    assert missing_recorder(Job({**single, "spec": {**single["spec"], "plugins": {}}})) is None
    single["spec"]["plugins"]["pytorch"] = ["--nproc-per-node=2"]
    assert missing_recorder(Job(single)) == MISSING
