"""Large Jobs are admitted and decided in a thread, and what changes meanwhile is not lost."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from tests.cluster.controller.harness import KEY, Harness
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller import offload
from vcjob.cluster.controller.admission import admit_job
from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.cluster.controller.offload import SLOW_SECONDS
from vcjob.kube.api.client import Client
from vcjob.kube.controller.lease import Election, LeaseSettings
from vcjob.kube.errors import NotFound
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.indexset import INDEX_LIMIT, IndexSet
from vcjob.lifecycle.pod import PodFact
from vcjob.lifecycle.status import Eviction, Status
from vcjob.wellknown.annotations import LIFECYCLE


async def test_the_loop_stays_free_while_a_large_job_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return admit_job(*arguments, **options)

    monkeypatch.setattr("vcjob.cluster.controller.preparation.admit_job", slow)
    harness = Harness(job("j", task("a", 1, pod={"hostname": "x"}), plugins={"env": []}))
    monkeypatch.setattr("vcjob.cluster.controller.admission.LARGE_SPEC_BYTES", 1)
    admitting = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    assert not admitting.done(), "and this line runs, so the loop is free"
    harness.change(job("j", task("a", 2)))
    release.set()
    await admitting
    assert harness.pods() == ["j-a-0", "j-a-1"], "the Job as it was changed meanwhile"


async def decide_in_a_thread(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> tuple[asyncio.Task[Any], threading.Event]:
    """A reconcile whose decision has begun in a thread, and the event that lets it end."""
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return decide(*arguments)

    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", slow)
    monkeypatch.setattr("vcjob.cluster.controller.offload.LARGE_TASKS", 1)
    deciding = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    return deciding, release


async def test_reports_about_pods_wait_while_a_thread_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    deciding, release = await decide_in_a_thread(harness, monkeypatch)
    harness.show("j-a-0", "Running")
    harness.lose("j-a-1")
    assert {fact.phase for fact in harness.state.observed.pods.values()} == {"Pending"}
    release.set()
    await deciding
    assert {fact.phase for fact in harness.state.observed.pods.values()} != {"Pending"}
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "0", "j-a-1": "1"}


@pytest.mark.parametrize("gone", [False, True])
async def test_a_job_that_changes_while_a_thread_decides_is_decided_again(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    harness = Harness(job("j", task("a", 1)))
    deciding, release = await decide_in_a_thread(harness, monkeypatch)
    if gone:
        harness.delete_job()
    else:
        harness.change(job("j", task("a", 3)))
    release.set()
    await deciding
    assert len(harness.pods()) == (0 if gone else 3)


class Decisions:
    """`decide`, with what it costs in seconds of a clock (busy, as a decision is), and the threads that it ran in."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.clock = time.thread_time
        self.threads: list[int] = []

    def __call__(self, *arguments: Any) -> Any:
        self.threads.append(threading.get_ident())
        until = self.clock() + self.seconds
        while self.clock() < until:
            pass
        return decide(*arguments)

    @property
    def in_loop(self) -> list[bool]:
        return [thread == threading.get_ident() for thread in self.threads]


@pytest.fixture
def decisions(monkeypatch: pytest.MonkeyPatch) -> Decisions:
    found = Decisions()
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", found)
    return found


async def test_after_a_slow_decision_the_next_ones_are_made_in_a_thread(decisions: Decisions) -> None:
    harness = Harness(job("j", task("a", 2)))
    await harness.reconcile()
    assert all(decisions.in_loop), "a small Job"
    for decisions.seconds in (2 * SLOW_SECONDS, 0.0):
        decisions.threads.clear()
        await harness.reconciler.reconcile(KEY)
        assert decisions.in_loop == [decisions.seconds > 0]
    for _ in range(20):
        await harness.reconciler.reconcile(KEY)
    decisions.threads.clear()
    await harness.reconciler.reconcile(KEY)
    assert all(decisions.in_loop), "it has been fast for long enough"


def _pods(state: JobState, groups: int) -> None:
    for number in range(groups):
        state.observed.put(
            PodFact(
                task="a",
                index=0,
                uid=f"p{number}",
                attempt=number + 1,
                phase="Pending",
                created=1.0,
                since=1.0,
            )
        )


def _evictions(state: JobState, count: int) -> None:
    _, status = state.current()
    evictions = tuple(Eviction(float(number), IndexSet.of((number,))) for number in range(count))
    tasks = {"a": msgspec.structs.replace(status.memory("a"), evictions=evictions)}
    state.status = msgspec.structs.replace(status, tasks=tasks)


def _many_groups(state: JobState) -> None:
    _pods(state, offload.LARGE_GROUPS)


def _many_evictions(state: JobState) -> None:
    _evictions(state, offload.LARGE_GROUPS)


def _long_status(state: JobState) -> None:
    resource = state.resource
    assert resource is not None
    long = msgspec.Raw(msgspec.json.encode({"x": "y" * offload.LARGE_DECIDED_STATUS_BYTES}))
    state.resource = msgspec.structs.replace(resource, status=long)


def _long_spec(state: JobState) -> None:
    resource = state.resource
    assert resource is not None
    long = msgspec.Raw(msgspec.json.encode({"x": "y" * offload.LARGE_SPEC_BYTES}))
    state.resource = msgspec.structs.replace(resource, spec=long)


@pytest.mark.parametrize("enlarge", [_many_groups, _many_evictions, _long_status, _long_spec])
async def test_what_a_decision_reads_tells_that_it_may_take_long(enlarge: Callable[[JobState], None]) -> None:
    harness = Harness(job("j", task("a", 2)))
    await harness.reconcile()
    assert not offload.is_expensive(harness.state)
    enlarge(harness.state)
    assert offload.is_expensive(harness.state)


async def test_a_status_of_thousands_of_sets_in_few_bytes_each_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness, threads = Harness(job("j", task("a", 2))), list[int]()
    await harness.reconcile()

    def read(document: Any) -> Status:
        threads.append(threading.get_ident())
        return Status.from_kube(document)

    monkeypatch.setattr("vcjob.cluster.controller.reconcile.Status", SimpleNamespace(from_kube=read))
    text = ",".join(map(str, [*range(0, 34, 2), INDEX_LIMIT - 1]))
    tasks = {f"t{number}": {"attempts": dict.fromkeys(map(str, range(1, 17)), text)} for number in range(15)}
    harness.stored["controlledResources"][LIFECYCLE] = json.dumps({"tasks": tasks})
    harness.take_over()
    await harness.reconcile()
    assert threads and threading.get_ident() not in threads


async def test_many_pods_under_many_policies_are_decided_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = [{"exitCode": code + 1, "action": "RestartJob"} for code in range(100)]
    harness = Harness(job("j", task("a", 20), policies=policies))
    await harness.reconcile()
    assert not offload.is_expensive(harness.state)
    monkeypatch.setattr(offload, "LARGE_PODS_AND_POLICIES", 20 * 100)
    assert offload.is_expensive(harness.state)


class LeaseApi:
    """Holds one Lease and counts how often it was renewed."""

    def __init__(self) -> None:
        self.renewed = 0

    async def get(self, *arguments: Any, **options: Any) -> Any:
        raise NotFound(404, server_message="no Lease yet")

    async def create(self, resource: Any, body: Any, namespace: str, **options: Any) -> Any:
        return body

    async def replace(self, resource: Any, name: str, body: Any, namespace: str, **options: Any) -> Any:
        self.renewed += 1
        return body


@pytest.mark.slow
async def test_the_lease_is_renewed_while_a_hostile_job_decides(
    decisions: Decisions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the shape is: its first decision is measured, and the following ones take longer than the Lease lasts.
    The CPU time of each step of the loop is measured too, because a call into C can take any time."""
    run, steps = asyncio.Handle._run, list[float]()

    def measured(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        steps.append(time.thread_time() - began)

    monkeypatch.setattr(asyncio.Handle, "_run", measured)
    harness, lease = Harness(job("j", task("a", 2))), LeaseApi()
    settings = LeaseSettings(lease_seconds=3.0, renew_seconds=2.5, retry_seconds=0.1)
    election = Election(cast(Client, lease), "vcjob", "vcjob-system", identity="me", settings=settings)
    await harness.reconcile()

    async def lead() -> None:
        decisions.seconds = 2 * SLOW_SECONDS
        await harness.reconciler.reconcile(KEY)
        decisions.seconds, decisions.clock = settings.lease_seconds, time.monotonic
        await harness.reconciler.reconcile(KEY)
        election.check()

    await election.run(lead)
    assert decisions.in_loop[-2:] == [True, False]
    assert lease.renewed > 2
    assert max(steps) < settings.renew_seconds
