"""Leader election: at most one process acts, whatever happens to clocks, responses and processes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kube.fake_api import FakeApi, refuse
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import LEASES, PODS
from vcjob.kube.controller.lease import Election, LeaseSettings
from vcjob.kube.errors import LeaseLost

#: Nobody loses it, however busy the machine is, unless the test moves the clock.
LONG = LeaseSettings(lease_seconds=60.0, renew_seconds=30.0, retry_seconds=0.05)
#: The holder stops soon where it cannot renew.
SHORT = LeaseSettings(lease_seconds=30.0, renew_seconds=0.6, retry_seconds=0.05)


def election(client: Client, identity: str, settings: LeaseSettings = LONG, **options: Any) -> Election:
    return Election(client, "leader", "default", identity=identity, settings=settings, **options)


def holder(api: FakeApi) -> str:
    return str(api.objects["leases", "default", "leader"]["spec"]["holderIdentity"])


class Work:
    """Work that only the leader does."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()

    async def __call__(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
async def test_the_first_leads_and_the_second_waits_until_the_lease_is_released(
    api: FakeApi, client: Client
) -> None:
    ahead = 0.0

    def clock() -> float:
        return asyncio.get_running_loop().time() + ahead

    first, second = Work(), Work()
    a = asyncio.create_task(election(client, "a", clock=clock).run(first))
    await asyncio.wait_for(first.started.wait(), 20)
    b = asyncio.create_task(election(client, "b", clock=clock).run(second))
    for _ in range(5):  # together longer than a lease lasts: it is renewed
        ahead += LONG.renew_seconds / 2
        renewed, seen = api.count("PUT"), api.count("GET")
        while api.count("PUT") < renewed + 2 or api.count("GET") < seen + 2:
            await asyncio.sleep(0.01)
    assert not second.started.is_set()
    assert holder(api) == "a"
    await stop(a)
    assert first.stopped.is_set()
    assert holder(api) == ""  # released, so nobody waits until it expires
    await asyncio.wait_for(second.started.wait(), 20)
    assert holder(api) == "b"
    assert api.objects["leases", "default", "leader"]["spec"]["leaseTransitions"] == 1
    await stop(b)


async def test_a_dead_holder_is_replaced_only_after_its_lease_has_expired_by_our_clock(
    api: FakeApi, client: Client
) -> None:
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": 1, "renewTime": "1999-01-01T00:00:00.000000Z"}
    await api.put("leases", "leader", spec=spec)
    work = Work()
    began = asyncio.get_running_loop().time()
    task = asyncio.create_task(election(client, "b").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    assert asyncio.get_running_loop().time() - began >= 1.0  # its renewTime, however old, is ignored
    await stop(task)


async def test_the_holder_stops_before_others_may_start_when_the_server_is_unreachable(
    api: FakeApi, client: Client
) -> None:
    work = Work()
    one = election(client, "a", SHORT)
    task = asyncio.create_task(one.run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    renewed = asyncio.get_running_loop().time()
    api.on_next("PUT", "leases", refuse(500, "InternalError"), times=1000)
    await asyncio.wait_for(work.stopped.wait(), 20)
    assert asyncio.get_running_loop().time() - renewed < SHORT.lease_seconds
    assert not one.is_leader
    with pytest.raises(LeaseLost):
        await task


async def test_a_renewal_that_hangs_does_not_keep_the_holder_acting(api: FakeApi, client: Client) -> None:
    work = Work()
    one = election(client, "a", SHORT)
    task = asyncio.create_task(one.run(work))
    await asyncio.wait_for(work.started.wait(), 20)

    async def hang(_: object) -> None:
        await asyncio.sleep(30)

    renewed = asyncio.get_running_loop().time()
    api.on_next("PUT", "leases", hang, times=1000)
    await asyncio.wait_for(work.stopped.wait(), 20)
    assert asyncio.get_running_loop().time() - renewed < SHORT.lease_seconds
    with pytest.raises(LeaseLost):
        await task


async def test_one_failed_renewal_does_not_lose_the_lease(api: FakeApi, client: Client) -> None:
    work = Work()
    task = asyncio.create_task(election(client, "a").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    puts = api.count("PUT")
    api.on_next("PUT", "leases", refuse(500, "InternalError"))
    api.on_next("PUT", "leases", api.work_then_hang_up)
    api.on_next("PUT", "leases", refuse(409, "Conflict"))
    while api.count("PUT") < puts + 6:
        await asyncio.sleep(0.02)
    assert not work.stopped.is_set()
    await stop(task)


async def test_a_suspended_holder_cannot_write_after_its_lease_has_expired(
    api: FakeApi, client: Client
) -> None:
    """As after SIGSTOP or on a sleeping laptop: the clock ran on, the tasks did not."""
    ahead = 0.0

    def clock() -> float:
        return asyncio.get_running_loop().time() + ahead

    work = Work()
    one = election(client, "a", clock=clock)
    task = asyncio.create_task(one.run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    leader = client.guarded(one.check)
    await leader.create(PODS, PODS.manifest("before", "default"), "default")
    ahead = 3600.0
    with pytest.raises(LeaseLost):
        await leader.create(PODS, PODS.manifest("after", "default"), "default")
    assert ("pods", "default", "after") not in api.objects
    with pytest.raises(LeaseLost):
        await task
    assert work.stopped.is_set()


async def test_a_lease_taken_by_another_ends_the_work(api: FakeApi, client: Client) -> None:
    work = Work()
    task = asyncio.create_task(election(client, "a").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    spec = {**api.objects["leases", "default", "leader"]["spec"], "holderIdentity": "usurper"}
    await api.put("leases", "leader", spec=spec)
    with pytest.raises(LeaseLost):
        await asyncio.wait_for(task, 20)
    assert work.stopped.is_set()
    assert holder(api) == "usurper"  # the lease of another holder is not released


async def test_work_that_ends_or_fails_releases_the_lease(api: FakeApi, client: Client) -> None:
    async def done() -> None:
        return

    async def broken() -> None:
        raise RuntimeError("broken work")

    await election(client, "a").run(done)
    assert holder(api) == ""
    with pytest.raises(RuntimeError, match="broken work"):
        await election(client, "b").run(broken)
    assert holder(api) == ""


async def test_a_renewal_in_flight_at_the_end_does_not_prevent_the_release(
    api: FakeApi, client: Client
) -> None:
    renewing = asyncio.Event()

    async def done_but_unheard(request: Any) -> Any:
        answer = await api._serve(request)
        renewing.set()
        await asyncio.sleep(0.3)
        return answer

    work = Work()
    task = asyncio.create_task(election(client, "a").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    api.on_next("PUT", "leases", done_but_unheard)
    await asyncio.wait_for(renewing.wait(), 20)
    await stop(task)
    assert holder(api) == ""


async def test_the_lease_is_renewed_until_the_work_has_stopped(api: FakeApi, client: Client) -> None:
    release = asyncio.Event()
    started = asyncio.Event()

    async def slow_to_stop() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    task = asyncio.create_task(election(client, "a").run(slow_to_stop))
    await asyncio.wait_for(started.wait(), 20)
    task.cancel()
    puts = api.count("PUT")
    while api.count("PUT") < puts + 3:
        await asyncio.sleep(0.02)
    assert holder(api) == "a"
    release.set()
    await asyncio.gather(task, return_exceptions=True)
    assert holder(api) == ""


async def test_of_many_candidates_at_most_one_leads_at_any_time(
    api: FakeApi, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = LeaseSettings(lease_seconds=60.0, renew_seconds=30.0, retry_seconds=20.0)  # also for a release
    monkeypatch.setattr(Election, "_pause", lambda _: 0.05)
    acting = 0
    most = 0
    turns = 0

    async def short() -> None:
        nonlocal acting, most, turns
        acting += 1
        turns += 1
        most = max(most, acting)
        try:
            await asyncio.sleep(0.1)
        finally:
            acting -= 1

    candidates = [election(client, f"e{number}", patient) for number in range(6)]
    await asyncio.wait_for(asyncio.gather(*(each.run(short) for each in candidates)), 20)
    assert (most, turns) == (1, 6)


async def test_a_busy_window_does_not_delay_the_renewal(api: FakeApi, client: Client) -> None:
    work = Work()
    task = asyncio.create_task(election(client, "a").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    places = [await client.transport.window.acquire() for _ in range(client.transport.window.size)]
    puts = api.count("PUT")
    while api.count("PUT") < puts + 3:
        await asyncio.sleep(0.02)
    for place in places:
        client.transport.window.release(place)
    await stop(task)


async def test_a_deleted_lease_is_created_again(api: FakeApi, client: Client) -> None:
    work = Work()
    task = asyncio.create_task(election(client, "a").run(work))
    await asyncio.wait_for(work.started.wait(), 20)
    await api.drop("leases", "leader")
    while ("leases", "default", "leader") not in api.objects:
        await asyncio.sleep(0.02)
    assert not work.stopped.is_set()
    assert (await client.get(LEASES, "leader", "default"))["spec"]["holderIdentity"] == "a"
    await stop(task)


def test_invalid_timing_is_rejected() -> None:
    with pytest.raises(ValueError, match="retry"):
        LeaseSettings(lease_seconds=5, renew_seconds=10)
