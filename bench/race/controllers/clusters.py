"""The cluster of one round: a fresh API server, etcd, scheduler and fake nodes, the kinds, the queue, and a stub that
lets PodGroups in. Every contestant gets one of its own.

Volcano's controller makes pods only once a scheduler of Volcano's has let their PodGroup in. That scheduler is
no part of this race, so a stub lets every PodGroup in at once, for every contestant in the same way, and the
pods go to the cluster's own scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from bench.race.controllers.jobs import NAMESPACE
from bench.race.controllers.observer import Observer
from bench.race.controllers.service_accounts import kubeconfig
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part
from vcjob.cluster.resources import COMMANDS, JOBS, POD_GROUPS
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import Document, Resource
from vcjob.kube.config.config import load
from vcjob.kube.controller.watch import Snapshot, follow
from vcjob.kube.errors import Forbidden, KubeError
from vcjob.kube.http.transport import Transport
from vcjob.kube.http.window import Window

NODES, PODS_PER_NODE = 20, 1000


class _GroupStatus(msgspec.Struct):
    phase: str = ""


class _Group(msgspec.Struct):
    metadata: Meta
    status: _GroupStatus | None = None


class RaceCluster:
    """One cluster, the race's own client, and its view of what happens."""

    def __init__(self, testbed: Cluster, client: Client, seen: Observer) -> None:
        self.testbed = testbed
        self.client = client
        self.seen = seen
        #: The contestant's process, once it runs.
        self.part: Part | None = None

    async def hold_scheduler(self) -> None:
        """A gang scheduler places nothing before all pods are there, and what it then does is no part of the
        race: the cluster's own scheduler waits as long."""
        await asyncio.to_thread(self.testbed.part("kube-scheduler").pause)

    async def let_scheduler_go(self) -> None:
        await asyncio.to_thread(self.testbed.part("kube-scheduler").resume)


@asynccontextmanager
async def race_cluster() -> AsyncIterator[RaceCluster]:
    testbed = await asyncio.to_thread(_start)
    try:
        config = load(kubeconfig(testbed, "race", inner=False))
        async with Client(config, transport=Transport(config, window=Window(64))) as client:
            for kind in (JOBS, POD_GROUPS, COMMANDS):
                await _until_served(client, kind)
            seen = Observer(client)
            tasks = [asyncio.create_task(seen.run()), asyncio.create_task(_let_groups_in(client))]
            try:
                await seen.ready.wait()
                yield RaceCluster(testbed, client, seen)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await asyncio.to_thread(testbed.stop)


async def _until_served(client: Client, kind: Resource[Document]) -> None:
    """A new kind is busy at first, which the client retries, and a new role takes effect a little later."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.list(kind, NAMESPACE)
                return
            except Forbidden:
                await asyncio.sleep(0.1)


def _start() -> Cluster:
    cluster = Cluster.start()
    try:
        cluster.prepare_volcano()
        cluster.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        cluster.api.wait(account, lambda seen: seen is not None, what="there")
        cluster.fakes(NODES, pods=PODS_PER_NODE)
    except BaseException:
        cluster.stop()
        raise
    return cluster


async def _let_groups_in(client: Client) -> None:
    """The stub of a scheduler: every PodGroup may begin."""
    groups = POD_GROUPS.read_as(_Group)
    under_way: set[asyncio.Task[None]] = set()

    async def let_in(name: str) -> None:
        try:
            await client.patch(groups, name, {"status": {"phase": "Inqueue"}}, NAMESPACE)
        except KubeError:
            pass  # gone, or changed: the next event asks again

    async for step in follow(client, groups, namespace=NAMESPACE, on_error=lambda error: None):
        found = (
            step.items
            if isinstance(step, Snapshot)
            else [c.object for c in step.changes if c.type != "DELETED"]
        )
        for group in found:
            if group.status is None or group.status.phase in ("", "Pending"):
                task = asyncio.create_task(let_in(group.metadata.name))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
