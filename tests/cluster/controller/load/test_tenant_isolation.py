"""Hostile Jobs among a thousand others: none holds the event loop, and the others get their pods as if alone.

The event loop also renews the Lease and answers probes, so the test counts the function calls of each of its steps.
The first test has all of it at once: hostile Jobs, Commands, pods, ConfigMaps, imitations of Volcano and a flood of the
webhook.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.admission import expensive_jobs
from tests.cluster.controller.harness import KEY, NAMESPACE, Harness, _read
from tests.cluster.controller.jobs import Object, job, task
from tests.cluster.controller.load.hostile_clients import Flood, LargeConfigMaps
from tests.cluster.controller.load.hostile_cluster import (
    COMMANDS,
    CONFIG_MAPS,
    HOSTILE,
    ORDINARY,
    Cluster,
    LoopSteps,
    foreign_pod,
)
from tests.cluster.webhook.serving import webhooks
from vcjob.cluster.controller import event_recorder, offload
from vcjob.cluster.controller.admission import admit_job
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.resources import (
    PARTIAL_CONFIG_MAPS,
    PARTIAL_PODS,
)
from vcjob.kube.errors import Forbidden
from vcjob.lifecycle.user_requests import COMMANDS_PER_DECISION

#: Function calls that one step of the loop may make: less than 50 ms.
STEP_LIMIT = 120_000
#: Calls in the loop by which all hostile Jobs together may delay the last of the others: less than a second.
DELAY_LIMIT = 1_500_000
#: Just below the size from which a Job counts as large, and as large as a Job may be.
SHAPE_SIZES = (75, 2000)


async def _serve_alone() -> LoopSteps:
    cluster, steps = Cluster(), LoopSteps()
    cluster.add_ordinary_jobs()
    with steps.counted():
        await cluster.serve_ordinary_jobs()
    return steps


async def _serve_among_hostile_clients() -> LoopSteps:
    """The loop of a leader: its workers, the guard against Volcano, the list of ConfigMaps and the webhook."""
    cluster, steps, config_maps = Cluster(), LoopSteps(), LargeConfigMaps(CONFIG_MAPS)
    cluster.add_hostile()
    cluster.add_ordinary_jobs()
    caches = Caches(config_maps.client(), None)
    caches._follow_owned(cluster.controller.jobs, PARTIAL_CONFIG_MAPS)
    *_, informer = caches.informers
    async with webhooks() as begin:
        flood = Flood(await begin())
        with flood.running(), steps.counted():
            await cluster.serve_ordinary_jobs(cluster.controller._schedulers.guard(), informer.run())
            await asyncio.to_thread(flood.served.wait, 60)
    assert flood.allowed == [True] * flood.ORDINARY, "reviews of ordinary Jobs"
    assert informer.synced.is_set()
    assert (config_maps.limits, len(list(informer))) == ({100}, CONFIG_MAPS)
    assert config_maps.largest_page < 30_000_000
    return steps


@pytest.mark.long
async def test_hostile_jobs_among_a_thousand_hold_neither_the_loop_nor_another_job(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = await _serve_alone()
    began = time.thread_time()
    shared = await _serve_among_hostile_clients()
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
        pod = foreign_pod("mine-uid", str(number + 1))
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
@example(expensive_jobs.long_timeouts(1))  # its policy restarts a Job whose pods are pending
def test_any_mixture_of_expensive_shapes_gets_a_status(document: Object) -> None:
    async def reconcile() -> Object:
        harness = Harness(document, status_delay=0.0, creation_chunk=10)
        for _ in range(3):
            await harness.reconciler.reconcile(KEY)
        return harness.stored

    assert asyncio.run(reconcile())["state"]["phase"] in ("Pending", "Failed", "Restarting")


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
