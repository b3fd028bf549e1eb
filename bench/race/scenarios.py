"""The five races. Each gives its figures: seconds by name, and what the contestant's process cost meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from vcjob.admission import admit
from vcjob.cluster.controller.objects.owned_objects import RESOURCES
from vcjob.cluster.resources import COMMANDS, JOBS
from vcjob.kube.api.resources import PODS
from vcjob.plan.plan import Plan

from .arena import Arena
from .contestants import Contestant
from .measure import Meter
from .race_jobs import NAMESPACE, pytorch_job
from .size import Size

Figures = dict[str, Any]
_AT_ONCE = 50
_PATIENCE = 400.0


async def one_large_job(arena: Arena, who: Contestant, size: Size) -> Figures:
    """(a) One Job of 1 master and 999 workers: to all pods created, to all Running, to Completed."""
    if who.start is None:
        return await _bare(arena, size)
    meter = await _ready(arena, who)
    await arena.hold_scheduler()
    sight, before = arena.sight, arena.sight.created
    began = time.monotonic()
    await arena.client.create(JOBS, pytorch_job("large", size.pods - 1, life=size.life), NAMESPACE)
    made = await sight.until(lambda: sight.created - before >= size.pods, _PATIENCE, "all pods made")
    if who.briefly:
        return {"all_pods": made - began}
    await arena.let_scheduler_go()
    running = await sight.until(
        lambda: sight.phases["Running"] + sight.phases["Succeeded"] >= size.pods,
        _PATIENCE,
        "all pods running",
    )
    ended = await sight.until(lambda: sight.phases["Succeeded"] >= size.pods, _PATIENCE, "all pods ended")
    done = await sight.until(lambda: sight.jobs.get("large") == "Completed", _PATIENCE, "Completed")
    return {
        "all_pods": made - began,
        "all_running": running - began,
        "completed": done - began,
        "last_end_to_completed": done - ended,
        **await meter.read(),
    }


async def _bare(arena: Arena, size: Size) -> Figures:
    """The limit: the same pods from a client that does nothing else."""
    document = pytorch_job("large", size.pods - 1, life=size.life)
    document["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    admission = admit(document, backend="cluster")
    assert admission.job is not None, admission.problems
    bodies = []
    for text in Plan(admission.job, gang="volcano").pods_json():
        pod = msgspec.json.decode(text)
        del pod["metadata"]["ownerReferences"]  # there is no Job here that could own it
        bodies.append(msgspec.json.encode(pod))
    await arena.hold_scheduler()
    sight, before = arena.sight, arena.sight.created
    began, cpu = time.monotonic(), time.process_time()
    await _all(bodies, lambda body: arena.client.create(PODS, body, NAMESPACE))
    made = await sight.until(lambda: sight.created - before >= size.pods, _PATIENCE, "all pods made")
    return {"all_pods": made - began, "cpu_seconds": round(time.process_time() - cpu, 2)}


async def many_small_jobs(arena: Arena, who: Contestant, size: Size) -> Figures:
    """(b) 300 Jobs of 3 pods, all at once."""
    if who.start is None:
        return await _bare_small_jobs(arena, size)
    meter = await _ready(arena, who)
    await arena.hold_scheduler()
    sight, before, wanted = arena.sight, arena.sight.created, size.jobs * 3
    began = time.monotonic()
    jobs = (pytorch_job(f"small-{number}", 2, life=size.life) for number in range(size.jobs))
    submitting = asyncio.create_task(_all(jobs, lambda job: arena.client.create(JOBS, job, NAMESPACE)))
    made = await sight.until(lambda: sight.created - before >= wanted, _PATIENCE, "all pods made")
    await submitting
    if who.briefly:
        return {"all_pods": made - began}
    await arena.let_scheduler_go()
    running = await sight.until(
        lambda: sight.phases["Running"] + sight.phases["Succeeded"] >= wanted, _PATIENCE, "all pods running"
    )
    done = await sight.until(
        lambda: sight.job_phases["Completed"] >= size.jobs, _PATIENCE, "all Jobs Completed"
    )
    figures = await meter.read()
    return {
        "all_pods": made - began,
        "all_running": running - began,
        "completed": done - began,
        "requests_per_job": figures["requests"] / size.jobs,
        **figures,
    }


async def _bare_small_jobs(arena: Arena, size: Size) -> Figures:
    """The limit: the same Jobs with the same objects and pods from a client that does nothing else."""

    async def one(job: dict[str, Any]) -> None:
        made = await arena.client.create(JOBS, job, NAMESPACE)
        admission = admit(made, backend="cluster")
        assert admission.job is not None, admission.problems
        plan = Plan(admission.job, gang="volcano")
        await asyncio.gather(
            *(
                arena.client.create(RESOURCES[obj["apiVersion"], obj["kind"]], obj, NAMESPACE)
                for obj in plan.objects()
            )
        )
        await asyncio.gather(*(arena.client.create(PODS, body, NAMESPACE) for body in plan.pods_json()))

    await arena.hold_scheduler()
    sight, before = arena.sight, arena.sight.created
    began, cpu = time.monotonic(), time.process_time()
    await _all((pytorch_job(f"small-{number}", 2, life=size.life) for number in range(size.jobs)), one)
    made = await sight.until(lambda: sight.created - before >= size.jobs * 3, _PATIENCE, "all pods made")
    return {"all_pods": made - began, "cpu_seconds": round(time.process_time() - cpu, 2)}


async def steady_stream(arena: Arena, who: Contestant, size: Size) -> Figures:
    """(c) 1,000 Jobs submitted at 50 a second: how long each waits for its first pod."""
    meter = await _ready(arena, who)
    sight = arena.sight
    sent: dict[str, float] = {}
    under_way: list[asyncio.Task[Any]] = []
    began = time.monotonic()
    for number in range(size.stream):
        await asyncio.sleep(max(0.0, began + number / size.rate - time.monotonic()))
        job = pytorch_job(f"stream-{number}", 0, life=None)
        sent[job["metadata"]["name"]] = time.monotonic()
        under_way.append(asyncio.create_task(arena.client.create(JOBS, job, NAMESPACE)))
    await asyncio.gather(*under_way)
    done = await sight.until(lambda: sent.keys() <= sight.first_pod.keys(), _PATIENCE, "a pod of every Job")
    waits = sorted(sight.first_pod[name] - at for name, at in sent.items())
    # What it costs is comparable only once both have done the same.
    await sight.until(lambda: sight.job_phases["Running"] >= size.stream, _PATIENCE, "all Jobs Running")
    figures = await meter.read()
    return {
        "reaction_median": statistics.median(waits),
        "reaction_p99": waits[int(len(waits) * 0.99)],
        "all_pods": done - began,
        "requests_per_job": figures["requests"] / size.stream,
        **figures,
    }


async def restart(arena: Arena, who: Contestant, size: Size) -> Figures:
    """(d) RestartJob of a Job of 1,000 running pods: to all pods made anew, to all Running."""
    await _ready(arena, who)
    sight = arena.sight
    made = await arena.client.create(JOBS, pytorch_job("large", size.pods - 1, life=None), NAMESPACE)
    await sight.until(lambda: sight.phases["Running"] >= size.pods, _PATIENCE, "all pods running")
    await sight.until(lambda: sight.jobs.get("large") == "Running", _PATIENCE, "the Job Running")
    assert arena.part is not None
    meter = Meter(arena.cluster, arena.part, who.user)
    before = sight.created
    target = {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "name": "large",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    order = {
        "metadata": {"name": "again", "ownerReferences": [target]},
        "target": target,
        "action": "RestartJob",
    }
    began = time.monotonic()
    await arena.client.create(
        COMMANDS, {"apiVersion": COMMANDS.api_version, "kind": "Command", **order}, NAMESPACE
    )
    anew = await sight.until(lambda: sight.created - before >= size.pods, _PATIENCE, "all pods made anew")
    running = await sight.until(
        lambda: sight.phases["Running"] >= size.pods and sight.jobs.get("large") == "Running",
        _PATIENCE,
        "all Running again",
    )
    return {"all_pods": anew - began, "all_running": running - began, **await meter.read()}


async def delete(arena: Arena, who: Contestant, size: Size) -> Figures:
    """(e) 2,000 Jobs of one pod deleted, all at once: to no Job and no pod left."""
    await _ready(arena, who, collected=True)
    sight = arena.sight
    jobs = (pytorch_job(f"gone-{number}", 0, life=None) for number in range(size.deleted))
    await _all(jobs, lambda job: arena.client.create(JOBS, job, NAMESPACE))
    await sight.until(lambda: sight.phases["Running"] >= size.deleted, _PATIENCE, "all pods running")
    await sight.until(lambda: sight.job_phases["Running"] >= size.deleted, _PATIENCE, "all Jobs Running")
    assert arena.part is not None
    meter = Meter(arena.cluster, arena.part, who.user)
    began = time.monotonic()
    names = (f"gone-{number}" for number in range(size.deleted))
    deleting = asyncio.create_task(_all(names, lambda name: arena.client.delete(JOBS, name, NAMESPACE)))
    no_jobs = await sight.until(lambda: not sight.jobs, _PATIENCE, "no Job left")
    no_pods = await sight.until(lambda: not sight.pods, _PATIENCE, "no pod left")
    await deleting
    return {"jobs_gone": no_jobs - began, "all_gone": max(no_jobs, no_pods) - began, **await meter.read()}


Scenario = Callable[[Arena, Contestant, Size], Awaitable[Figures]]
SCENARIOS: dict[str, Scenario] = {
    "a": one_large_job,
    "b": many_small_jobs,
    "c": steady_stream,
    "d": restart,
    "e": delete,
}


async def _ready(arena: Arena, who: Contestant, *, collected: bool = False) -> Meter:
    """Start the contestant and see one small Job through, so that no start-up is in the figures. `collected`:
    wait until the garbage collector knows Jobs, too."""
    assert who.start is not None
    arena.part = await asyncio.to_thread(who.start, arena.cluster)
    sight = arena.sight
    await arena.client.create(JOBS, pytorch_job("first", 0, life="0s"), NAMESPACE)
    await sight.until(lambda: sight.jobs.get("first") == "Completed", 60, f"{who.name}: its first Job")
    await arena.client.delete(JOBS, "first", NAMESPACE)
    if not collected:
        for pod in await arena.client.list(PODS, NAMESPACE, labels="volcano.sh/job-name=first"):
            await arena.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
    # A new cluster's garbage collector looks for new kinds only every half a minute.
    await sight.until(lambda: not sight.jobs and not sight.pods, 90, f"{who.name}: its first Job gone")
    await asyncio.sleep(2.0)  # what the removal stirred up has settled, and the audit log is written
    return Meter(arena.cluster, arena.part, who.user)


async def _all(things: Iterable[Any], one: Callable[[Any], Awaitable[Any]]) -> None:
    left = iter(things)

    async def work() -> None:
        for thing in left:
            await one(thing)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
