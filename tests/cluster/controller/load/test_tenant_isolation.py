"""Hostile Jobs among a thousand others: none holds the event loop, and the others get their pods as if alone.

The event loop also renews the Lease and answers probes, so the test counts the function calls of each of its steps.
The webhook's part (many large request bodies) is in tests/cluster/webhook/test_server.py.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import threading
import time
from asyncio.events import Handle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from tests.admission import expensive_jobs
from tests.cluster.controller.conftest import ControllerCluster, establish
from tests.cluster.controller.harness import KEY, NAMESPACE, FakeApi, Harness, _read
from tests.cluster.controller.jobs import Object, job, task
from tests.cluster.controller.volcano.test_schedulers import ready_part
from tests.testbed.api import ApiError
from tests.testbed.cluster import Cluster as RealCluster
from vcjob.cluster.controller import event_recorder, offload
from vcjob.cluster.controller.admission import admit_job
from vcjob.cluster.controller.controller import Controller
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.telemetry import Silent
from vcjob.cluster.resources import (
    PARTIAL_COMMANDS,
    PARTIAL_CONFIG_MAPS,
    PARTIAL_JOBS,
    PARTIAL_PODS,
    PartialCommand,
)
from vcjob.kube.api.client import Client
from vcjob.kube.errors import Forbidden
from vcjob.lifecycle.user_requests import COMMANDS_PER_DECISION

#: Function calls that one step of the loop may make: less than 50 ms.
STEP_LIMIT = 120_000
#: Calls in the loop by which all hostile Jobs together may delay the last of the others: less than a second.
DELAY_LIMIT = 1_500_000
ORDINARY = 1000
#: A Job with 48 tasks in 12 layers took 5.5 s for one decision, one of 1,500 unknown names 11 s for its admission.
HOSTILE: dict[str, Object] = {
    "layers": expensive_jobs.layers(48),
    "chain": expensive_jobs.chain(600),
    "unknown-names": expensive_jobs.unknown_dependencies(1500),
    "similar-names": expensive_jobs.similar_dependencies(1500),
    "many-tasks": expensive_jobs.many_tasks(400),
    "policies": expensive_jobs.policies(300),
    "replicas": expensive_jobs.replicas(2_000),
    "commands": job("commands", task("a", 1)),
}
#: Just below the size from which a Job counts as large, and as large as a Job may be.
SHAPE_SIZES = (75, 2000)
COMMANDS = 4000


class YieldingApi(FakeApi):
    """A fake API server whose answers take one turn of the loop, as real ones do at least. `served` is set when all
    ordinary Jobs have their pods."""

    def __init__(self) -> None:
        super().__init__()
        self.missing = {f"j{number}-a-{index}" for number in range(ORDINARY) for index in range(2)}
        self.served = asyncio.Event()

    async def create(self, resource: Any, body: Any, namespace: str = "", **options: Any) -> Any:
        await asyncio.sleep(0)
        if resource.plural == "subjectaccessreviews":
            return msgspec.convert({"status": {"allowed": False}}, resource.model)
        made = await super().create(resource, body, namespace, **options)
        if resource.plural == "pods":
            self.missing.discard(made.metadata.name)
            if not self.missing:
                self.served.set()
        return made

    async def patch(self, resource: Any, name: str, patch: Object, namespace: str, **options: Any) -> Any:
        await asyncio.sleep(0)
        return await super().patch(resource, name, patch, namespace, **options)


class Cluster:
    """A controller's workers on a fake API server; Jobs reach it as from the watch."""

    def __init__(self) -> None:
        self.api = YieldingApi()
        self.controller = Controller(cast(Client, self.api), ControllerOptions(gang="none"), Silent(), "test")

    def add_job(self, name: str, document: Object) -> None:
        meta = {**document["metadata"], "name": name, "uid": f"{name}-uid", "generation": 1}
        made = self.api.put("jobs", {**document, "metadata": meta})
        self.controller.jobs.job_changed(_read(PARTIAL_JOBS, made))

    async def serve_ordinary_jobs(self) -> None:
        """Run the workers until all ordinary Jobs have their pods."""
        workers = [asyncio.create_task(self.controller._work()) for _ in range(16)]
        served = asyncio.create_task(self.api.served.wait())
        try:
            await asyncio.wait({served, *workers}, return_when=asyncio.FIRST_COMPLETED)
            assert served.done(), [worker for worker in workers if worker.done()]
        finally:
            self.controller.queue.close()
            for one in (served, *workers):
                one.cancel()
            await asyncio.gather(served, *workers, return_exceptions=True)

    def add_ordinary_jobs(self) -> None:
        for number in range(ORDINARY):
            self.add_job(f"j{number}", job("j", task("a", 2)))

    def add_commands(self, action: Callable[[int], str]) -> None:
        for number in range(COMMANDS):
            meta = {"name": f"c{number}", "namespace": NAMESPACE, "uid": f"c{number}"}
            meta["resourceVersion"] = str(number + 1)
            target = {"kind": "Job", "name": "commands"}
            command = {"metadata": meta, "action": action(number), "target": target}
            self.api.put("commands", command)
            self.controller.jobs.command_added(msgspec.convert(command, PartialCommand))

    def add_hostile(self) -> None:
        for name, document in HOSTILE.items():
            self.add_job(name, document)
        self.add_commands(lambda number: "ResumeJob")
        for uid in ("j0-uid", "nobody"):  # hand-made pods with an owner reference to any uid
            for number, index in enumerate(("2000000000", "²", "-1", "9" * 4000)):
                self.controller.jobs.pod_changed(
                    _read(PARTIAL_PODS, _foreign_pod(f"{uid}-{number}", uid, index))
                )
        big = {"metadata": {"name": "big", "ownerReferences": [_owner("nobody")]}, "data": {"x": "y" * 2**20}}
        self.controller.jobs.object_changed(
            "ConfigMap", _read(PARTIAL_CONFIG_MAPS, self.api.put("configmaps", big))
        )
        for app in ("volcano-controller", "volcano-scheduler"):
            self.controller._schedulers._parts._put(ready_part(app, "default"))


def _owner(uid: str) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "j",
        "uid": uid,
        "controller": True,
    }


def _foreign_pod(name: str, uid: str, index: str) -> Object:
    marks = {"volcano.sh/task-spec": "a", "volcano.sh/task-index": index, "vcjob.io/attempt": index}
    meta = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
    return {
        "metadata": {**meta, "annotations": marks, "ownerReferences": [_owner(uid)]},
        "status": {"phase": "Running"},
    }


class LoopSteps:
    """The function calls that the event loop made, in all and at most in one step."""

    most = total = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        step, calls = Handle._run.__code__, 0

        def profile(frame: Any, event: str, _arg: object) -> None:
            nonlocal calls
            if frame.f_code is step:
                self.most = max(self.most, calls)
                calls = 0
            if event in ("call", "c_call"):
                calls += 1
                self.total += 1

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)


async def _serve(*, hostile: bool) -> LoopSteps:
    cluster, steps = Cluster(), LoopSteps()
    if hostile:
        cluster.add_hostile()
    cluster.add_ordinary_jobs()
    with steps.counted():
        await cluster.serve_ordinary_jobs()
    return steps


@pytest.mark.long
async def test_hostile_jobs_among_a_thousand_hold_neither_the_loop_nor_another_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = await _serve(hostile=False)
    began = time.thread_time()
    shared = await _serve(hostile=True)
    with capsys.disabled():
        print(
            f"\n  calls in the loop: {alone.total} for {ORDINARY} Jobs alone, {shared.total} with hostile ones "
            f"({time.thread_time() - began:.1f} s of CPU, counting); at most {shared.most} in one step",
            end="",
        )
    assert shared.most <= STEP_LIMIT
    assert shared.total - alone.total <= DELAY_LIMIT


@pytest.mark.slow
async def test_hand_made_pods_of_many_attempts_do_not_hold_the_loop(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A tenant needs only the right to create pods: labels and an owner reference make them its Job's."""
    cluster, steps = Cluster(), LoopSteps()
    cluster.add_job("mine", job("mine", task("a", 1)))
    for number in range(1000):
        pod = _foreign_pod(f"p{number}", "mine-uid", str(number + 1))
        cluster.controller.jobs.pod_changed(_read(PARTIAL_PODS, pod))
    cluster.add_ordinary_jobs()
    began = time.thread_time()
    with steps.counted():
        await cluster.serve_ordinary_jobs()
    with capsys.disabled():
        print(
            f"\n  at most {steps.most} calls in one step, {time.thread_time() - began:.1f} s of CPU", end=""
        )
    assert steps.most <= STEP_LIMIT
    state = cluster.controller.jobs.named(NAMESPACE, "mine")
    assert state is not None and len(state.observed.groups["a"]) > 100, "the pods were seen"
    assert len(state.current()[1].memory("a").attempts.groups) <= 101


@pytest.mark.long
async def test_no_shape_of_an_expensive_job_holds_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    cluster, steps = Cluster(), LoopSteps()
    for shape, make in expensive_jobs.SHAPES.items():
        for size in SHAPE_SIZES:
            cluster.add_job(f"{shape.replace('_', '-')}-{size}", make(size))
    cluster.add_ordinary_jobs()
    with steps.counted():
        await cluster.serve_ordinary_jobs()
    with capsys.disabled():
        print(f"\n  at most {steps.most} calls in one step of the loop", end="")
    assert steps.most <= STEP_LIMIT


@pytest.mark.slow
async def test_many_large_jobs_do_not_take_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def slow(document: Object, *arguments: Any) -> Any:
        if document["metadata"]["name"].startswith("large"):
            assert release.wait(60)
        return admit_job(document, *arguments)

    monkeypatch.setattr("vcjob.cluster.controller.preparation.admit_job", slow)
    cluster = Cluster()
    for number in range(40):
        cluster.add_job(f"large{number}", expensive_jobs.many_tasks(300))
    cluster.add_ordinary_jobs()
    try:
        await cluster.serve_ordinary_jobs()
        assert not cluster.api.missing, "although no large Job was admitted"
    finally:
        release.set()


@pytest.mark.slow
async def test_many_jobs_of_many_pods_do_not_take_all_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their specs are small, but their requests keep a worker for long."""
    monkeypatch.setattr(offload, "MANY_PODS", 50)
    cluster, release = Cluster(), asyncio.Event()
    create = cluster.api.create

    async def slow(resource: Any, body: Any, namespace: str = "", **options: Any) -> Any:
        if resource.plural == "pods" and b'"name":"many' in body:
            await release.wait()
        return await create(resource, body, namespace, **options)

    monkeypatch.setattr(cluster.api, "create", slow)
    for number in range(40):
        cluster.add_job(f"many{number}", job("j", task("a", 60)))
    cluster.add_ordinary_jobs()
    try:
        async with asyncio.timeout(60):
            await cluster.serve_ordinary_jobs()
    finally:
        release.set()
    assert not cluster.api.missing, "although no pod of a large Job was created"


@pytest.mark.parametrize("shape", sorted(expensive_jobs.SHAPES))
async def test_every_expensive_job_gets_a_status(shape: str) -> None:
    harness = Harness(expensive_jobs.SHAPES[shape](300), status_delay=0.0, creation_chunk=10)
    for _ in range(5):
        await harness.reconciler.reconcile(KEY)
    state = harness.stored["state"]
    assert state["phase"] in ("Pending", "Failed")
    assert len(msgspec.json.encode(harness.stored)) < 200_000
    assert harness.pods() or state["phase"] == "Failed" or state["reason"]


@settings(suppress_health_check=list(HealthCheck))
@given(expensive_jobs.expensive_jobs(max_size=300))
def test_any_mixture_of_expensive_shapes_gets_a_status(document: Object) -> None:
    async def reconcile() -> Object:
        harness = Harness(document, status_delay=0.0, creation_chunk=10)
        for _ in range(3):
            await harness.reconciler.reconcile(KEY)
        return harness.stored

    assert asyncio.run(reconcile())["state"]["phase"] in ("Pending", "Failed")


async def test_a_tenants_imitation_of_volcano_changes_nothing() -> None:
    cluster = Cluster()
    cluster.add_hostile()
    await cluster.controller._schedulers.refresh()
    cluster.controller._schedulers.check_job_controller()
    assert not cluster.controller._schedulers.volcano_schedules


async def test_thousands_of_commands_reach_the_lifecycle_in_order() -> None:
    cluster = Cluster()
    cluster.add_hostile()
    state = cluster.controller.jobs.named(NAMESPACE, "commands")
    assert state is not None
    state.commands.refresh()
    assert list(state.observed.commands) == [f"c{number}" for number in range(COMMANDS)]
    assert PARTIAL_COMMANDS.model is PartialCommand


async def test_commands_of_unknown_actions_neither_hold_the_loop_nor_displace_events_of_other_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Users choose the action, so each of these messages differs from all others."""
    monkeypatch.setattr(event_recorder, "_QUEUE_LIMIT", 2 * event_recorder.EVENTS_PER_REASON)
    cluster, steps = Cluster(), LoopSteps()
    cluster.add_job("commands", HOSTILE["commands"])
    cluster.add_job("other", job("other", task("a", 1)))
    cluster.add_commands(lambda number: f"Unknown{number}")
    quota = Forbidden(403, server_message="exceeded quota: few")
    cluster.api.refuse = lambda verb, plural, name: quota if (verb, name) == ("create", "other-a-0") else None
    reconcile = cluster.controller._reconciler.reconcile
    with steps.counted():
        for _ in range(COMMANDS // COMMANDS_PER_DECISION + 1):
            await reconcile((NAMESPACE, "commands-uid"))
        for _ in range(2):
            await reconcile((NAMESPACE, "other-uid"))
    state = cluster.controller.jobs.named(NAMESPACE, "commands")
    assert state is not None and not state.commands
    assert sum(map(len, state.recent_events.values())) <= 2 * event_recorder.EVENTS_PER_REASON
    assert steps.most <= STEP_LIMIT
    await cluster.controller._events.drain()
    events = [found for (plural, _), found in cluster.api.objects.items() if plural == "events"]
    assert "QuotaExceeded" in {found["reason"] for found in events}
    rejected = [found["message"] for found in events if found["reason"] == "CommandRefused"]
    assert 1 <= len(rejected) <= event_recorder.EVENTS_PER_REASON
    assert rejected[0].startswith("Unknown0 was rejected: there is no such action")


def _imitate_volcano(testbed: ControllerCluster) -> str:
    """A ready pod with the label of Volcano's controller manager, in a namespace that a tenant has created."""
    if testbed.api.find("/api/v1/namespaces/volcano-system") is None:
        testbed.api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    core = "/api/v1/namespaces/volcano-system"
    testbed.api.wait(f"{core}/serviceaccounts/default", lambda seen: seen is not None, what="created")
    pod = {
        "metadata": {"name": "imitation", "labels": {"app": "volcano-controller"}},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]},
    }
    testbed.api.create(f"{core}/pods", pod)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    testbed.api.patch(f"{core}/pods/imitation/status", ready)
    return f"{core}/pods/imitation"


def _seconds_to_pod(testbed: ControllerCluster, prefix: str, count: int) -> float:
    """The median of the times from the creation of an ordinary Job to that of its pod."""
    found = []
    for number in range(count):
        began = time.monotonic()
        testbed.create(job(f"{prefix}{number}", task("a", 1, after=None)))
        pod = f"{testbed.core}/pods/{prefix}{number}-a-0"
        testbed.api.wait(pod, lambda seen: seen is not None, what="created")
        found.append(time.monotonic() - began)
    return statistics.median(found)


@pytest.fixture
def testbed(fresh_cluster: Callable[..., RealCluster]) -> ControllerCluster:
    """A cluster of its own: what these Jobs leave behind keeps an API server busy for a minute."""
    cluster = fresh_cluster()
    establish(cluster)
    cluster.fakes(1)
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
    account = "/api/v1/namespaces/tenant/serviceaccounts/default"
    cluster.api.wait(account, lambda seen: seen is not None, what="made by the controller manager")
    return ControllerCluster(cluster, "tenant")


@pytest.mark.cluster
@pytest.mark.timeout(900)  # the API server needs a minute for these Jobs on an idle machine
def test_on_a_real_api_server_hostile_jobs_delay_no_other_job_by_seconds(
    testbed: ControllerCluster,
    serve: Callable[..., Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    imitation = _imitate_volcano(testbed)
    try:
        serve()
        alone = _seconds_to_pod(testbed, "alone", 5)
        testbed.wait_phase("alone0", "Running")
        for name, document in HOSTILE.items():
            hostile = {**document, "metadata": {"name": name}}
            try:
                testbed.create(hostile)
            except ApiError:
                continue  # the schema rejects it
        for number in range(200):
            testbed.command("commands", "ResumeJob" if number % 2 else "AbortJob")
        marks = {"metadata": {"annotations": {"volcano.sh/task-index": "2000000000"}}}
        testbed.api.patch(f"{testbed.core}/pods/alone0-a-0", marks)
        testbed.api.create(
            f"{testbed.core}/configmaps", {"metadata": {"name": "big"}, "data": {"x": "y" * 900_000}}
        )
        shared = _seconds_to_pod(testbed, "shared", 10)
    finally:
        testbed.api.delete(imitation)
    with capsys.disabled():
        print(
            f"\n  an ordinary Job has its pod after {alone:.2f} s alone, {shared:.2f} s next to hostile ones",
            end="",
        )
    # A minute and more before; 0.1 s on an idle machine, but tests share this one with others.
    assert shared <= alone + 5.0
    assert testbed.phase("alone0") == "Running", "an edited annotation changes nothing"
