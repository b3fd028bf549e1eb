"""The five races. Each gives its figures: seconds by name, and what the contestant's process cost meanwhile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from bench.race.controllers.clusters import RaceCluster
from bench.race.controllers.contestants import Contestant
from bench.race.controllers.jobs import NAMESPACE, pytorch_job
from bench.race.controllers.measure import Meter
from bench.race.controllers.size import Size
from vcjob.admission.review import admit
from vcjob.cluster.controller.objects.owned_objects import RESOURCES
from vcjob.cluster.resources import COMMANDS, JOBS
from vcjob.kube.api.resources import PODS
from vcjob.plan.plan import Plan

Figures = dict[str, Any]
_AT_ONCE = 50
_PATIENCE = 400.0


async def one_large_job(cluster: RaceCluster, who: Contestant, size: Size) -> Figures:
    """(a) One Job of 1 master and 999 workers: to all pods created, to all Running, to Completed."""
    if who.start is None:
        return await _bare(cluster, size)
    meter = await _ready(cluster, who)
    await cluster.hold_scheduler()
    seen, before = cluster.seen, cluster.seen.created
    began = time.monotonic()
    await cluster.client.create(JOBS, pytorch_job("large", size.pods - 1, life=size.life), NAMESPACE)
    made = await seen.until(lambda: seen.created - before >= size.pods, _PATIENCE, "all pods made")
    if who.briefly:
        return {"all_pods": made - began}
    await cluster.let_scheduler_go()
    running = await seen.until(
        lambda: seen.phases["Running"] + seen.phases["Succeeded"] >= size.pods,
        _PATIENCE,
        "all pods running",
    )
    ended = await seen.until(lambda: seen.phases["Succeeded"] >= size.pods, _PATIENCE, "all pods ended")
    done = await seen.until(lambda: seen.jobs.get("large") == "Completed", _PATIENCE, "Completed")
    return {
        "all_pods": made - began,
        "all_running": running - began,
        "completed": done - began,
        "last_end_to_completed": done - ended,
        **await meter.read(),
    }


async def _bare(cluster: RaceCluster, size: Size) -> Figures:
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
    await cluster.hold_scheduler()
    seen, before = cluster.seen, cluster.seen.created
    began, cpu = time.monotonic(), time.process_time()
    await _all(bodies, lambda body: cluster.client.create(PODS, body, NAMESPACE))
    made = await seen.until(lambda: seen.created - before >= size.pods, _PATIENCE, "all pods made")
    return {"all_pods": made - began, "cpu_seconds": round(time.process_time() - cpu, 2)}


async def many_small_jobs(cluster: RaceCluster, who: Contestant, size: Size) -> Figures:
    """(b) 300 Jobs of 3 pods, all at once."""
    if who.start is None:
        return await _bare_small_jobs(cluster, size)
    meter = await _ready(cluster, who)
    await cluster.hold_scheduler()
    seen, before, wanted = cluster.seen, cluster.seen.created, size.jobs * 3
    began = time.monotonic()
    jobs = (pytorch_job(f"small-{number}", 2, life=size.life) for number in range(size.jobs))
    submitting = asyncio.create_task(_all(jobs, lambda job: cluster.client.create(JOBS, job, NAMESPACE)))
    made = await seen.until(lambda: seen.created - before >= wanted, _PATIENCE, "all pods made")
    await submitting
    if who.briefly:
        return {"all_pods": made - began}
    await cluster.let_scheduler_go()
    running = await seen.until(
        lambda: seen.phases["Running"] + seen.phases["Succeeded"] >= wanted, _PATIENCE, "all pods running"
    )
    done = await seen.until(
        lambda: seen.job_phases["Completed"] >= size.jobs, _PATIENCE, "all Jobs Completed"
    )
    figures = await meter.read()
    return {
        "all_pods": made - began,
        "all_running": running - began,
        "completed": done - began,
        "requests_per_job": figures["requests"] / size.jobs,
        **figures,
    }


async def _bare_small_jobs(cluster: RaceCluster, size: Size) -> Figures:
    """The limit: the same Jobs with the same objects and pods from a client that does nothing else."""

    async def one(job: dict[str, Any]) -> None:
        made = await cluster.client.create(JOBS, job, NAMESPACE)
        admission = admit(made, backend="cluster")
        assert admission.job is not None, admission.problems
        plan = Plan(admission.job, gang="volcano")
        await asyncio.gather(
            *(
                cluster.client.create(RESOURCES[obj["apiVersion"], obj["kind"]], obj, NAMESPACE)
                for obj in plan.objects()
            )
        )
        await asyncio.gather(*(cluster.client.create(PODS, body, NAMESPACE) for body in plan.pods_json()))

    await cluster.hold_scheduler()
    seen, before = cluster.seen, cluster.seen.created
    began, cpu = time.monotonic(), time.process_time()
    await _all((pytorch_job(f"small-{number}", 2, life=size.life) for number in range(size.jobs)), one)
    made = await seen.until(lambda: seen.created - before >= size.jobs * 3, _PATIENCE, "all pods made")
    return {"all_pods": made - began, "cpu_seconds": round(time.process_time() - cpu, 2)}


async def steady_stream(cluster: RaceCluster, who: Contestant, size: Size) -> Figures:
    """(c) 1,000 Jobs submitted at 50 a second: how long each waits for its first pod."""
    meter = await _ready(cluster, who)
    seen = cluster.seen
    sent: dict[str, float] = {}
    under_way: list[asyncio.Task[Any]] = []
    began = time.monotonic()
    for number in range(size.stream):
        await asyncio.sleep(max(0.0, began + number / size.rate - time.monotonic()))
        job = pytorch_job(f"stream-{number}", 0, life=None)
        sent[job["metadata"]["name"]] = time.monotonic()
        under_way.append(asyncio.create_task(cluster.client.create(JOBS, job, NAMESPACE)))
    await asyncio.gather(*under_way)
    done = await seen.until(lambda: sent.keys() <= seen.first_pod.keys(), _PATIENCE, "a pod of every Job")
    waits = sorted(seen.first_pod[name] - at for name, at in sent.items())
    # What it costs is comparable only once both have done the same.
    await seen.until(lambda: seen.job_phases["Running"] >= size.stream, _PATIENCE, "all Jobs Running")
    figures = await meter.read()
    return {
        "reaction_median": statistics.median(waits),
        "reaction_p99": waits[int(len(waits) * 0.99)],
        "all_pods": done - began,
        "requests_per_job": figures["requests"] / size.stream,
        **figures,
    }


async def restart(cluster: RaceCluster, who: Contestant, size: Size) -> Figures:
    """(d) RestartJob of a Job of 1,000 running pods: to all pods recreated, to all Running."""
    await _ready(cluster, who)
    seen = cluster.seen
    made = await cluster.client.create(JOBS, pytorch_job("large", size.pods - 1, life=None), NAMESPACE)
    await seen.until(lambda: seen.phases["Running"] >= size.pods, _PATIENCE, "all pods running")
    await seen.until(lambda: seen.jobs.get("large") == "Running", _PATIENCE, "the Job Running")
    assert cluster.part is not None
    meter = Meter(cluster.testbed, cluster.part, who.user)
    before = seen.created
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
    await cluster.client.create(
        COMMANDS, {"apiVersion": COMMANDS.api_version, "kind": "Command", **order}, NAMESPACE
    )
    recreated = await seen.until(lambda: seen.created - before >= size.pods, _PATIENCE, "all pods recreated")
    running = await seen.until(
        lambda: seen.phases["Running"] >= size.pods and seen.jobs.get("large") == "Running",
        _PATIENCE,
        "all Running again",
    )
    return {"all_pods": recreated - began, "all_running": running - began, **await meter.read()}


async def delete(cluster: RaceCluster, who: Contestant, size: Size) -> Figures:
    """(e) 2,000 Jobs of one pod deleted, all at once: to no Job and no pod left."""
    await _ready(cluster, who, collected=True)
    seen = cluster.seen
    jobs = (pytorch_job(f"gone-{number}", 0, life=None) for number in range(size.deleted))
    await _all(jobs, lambda job: cluster.client.create(JOBS, job, NAMESPACE))
    await seen.until(lambda: seen.phases["Running"] >= size.deleted, _PATIENCE, "all pods running")
    await seen.until(lambda: seen.job_phases["Running"] >= size.deleted, _PATIENCE, "all Jobs Running")
    assert cluster.part is not None
    meter = Meter(cluster.testbed, cluster.part, who.user)
    began = time.monotonic()
    names = (f"gone-{number}" for number in range(size.deleted))
    deleting = asyncio.create_task(_all(names, lambda name: cluster.client.delete(JOBS, name, NAMESPACE)))
    no_jobs = await seen.until(lambda: not seen.jobs, _PATIENCE, "no Job left")
    no_pods = await seen.until(lambda: not seen.pods, _PATIENCE, "no pod left")
    await deleting
    return {"jobs_gone": no_jobs - began, "all_gone": max(no_jobs, no_pods) - began, **await meter.read()}


Scenario = Callable[[RaceCluster, Contestant, Size], Awaitable[Figures]]
SCENARIOS: dict[str, Scenario] = {
    "a": one_large_job,
    "b": many_small_jobs,
    "c": steady_stream,
    "d": restart,
    "e": delete,
}


async def _ready(cluster: RaceCluster, who: Contestant, *, collected: bool = False) -> Meter:
    """Start the contestant and see one small Job through, so that no start-up is in the figures. `collected`:
    wait until the garbage collector knows Jobs, too."""
    assert who.start is not None
    cluster.part = await asyncio.to_thread(who.start, cluster.testbed)
    seen = cluster.seen
    await cluster.client.create(JOBS, pytorch_job("first", 0, life="0s"), NAMESPACE)
    await seen.until(lambda: seen.jobs.get("first") == "Completed", 60, f"{who.name}: its first Job")
    await cluster.client.delete(JOBS, "first", NAMESPACE)
    if not collected:
        for pod in await cluster.client.list(PODS, NAMESPACE, labels="volcano.sh/job-name=first"):
            await cluster.client.delete(PODS, pod["metadata"]["name"], NAMESPACE)
    # A new cluster's garbage collector looks for new kinds only every half a minute.
    await seen.until(lambda: not seen.jobs and not seen.pods, 90, f"{who.name}: its first Job gone")
    await asyncio.sleep(2.0)  # what the removal stirred up has settled, and the audit log is written
    return Meter(cluster.testbed, cluster.part, who.user)


async def _all(things: Iterable[Any], one: Callable[[Any], Awaitable[Any]]) -> None:
    left = iter(things)

    async def work() -> None:
        for thing in left:
            await one(thing)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
