"""Lists, watches and informers on a real API server: nothing is missed, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from contextlib import aclosing
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.kube.api.test_codec import nested
from tests.kube.conftest import seen
from tests.kube.cutting_proxy import CuttingProxy
from tests.kube.real_api.maps import MAPS, PAGED, STREAMED, PartialMap, config_map, running
from tests.testbed.cluster import Cluster
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CONFIG_MAPS
from vcjob.kube.config.config import load
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.watch import Batch, Follower, Snapshot, WatchSettings
from vcjob.kube.http.transport import Transport

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "paged"])
async def test_a_list_and_a_watch_of_metadata_do_not_transfer_the_content(
    client: Client, namespace: str, settings: WatchSettings
) -> None:
    metadata = CONFIG_MAPS.read_metadata_as(PartialMap)
    await client.create(CONFIG_MAPS, config_map("old", big="x" * 900_000), namespace)
    follower = Follower(client, metadata, namespace=namespace, labels="test=yes", settings=settings)
    async with aclosing(follower.run()) as steps:
        first = await anext(steps)
        assert isinstance(first, Snapshot)
        assert [(found.metadata.name, found.data) for found in first.items] == [("old", {})]
        await client.create(CONFIG_MAPS, config_map("new", big="x" * 900_000), namespace)
        async for step in steps:
            if isinstance(step, Batch) and step.changes:
                (change,) = step.changes
                assert (change.object.metadata.name, change.object.data) == ("new", {})
                break


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "paged"])
async def test_an_informer_follows_the_server_and_waits_for_its_own_writes(
    client: Client, namespace: str, settings: WatchSettings
) -> None:
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"m{n}"), namespace) for n in range(7)))
    informer = Informer(client, MAPS, namespace=namespace, labels="test=yes", settings=settings)
    async with running(informer):
        assert len(informer) == 7
        made = await client.create(CONFIG_MAPS, config_map("mine", k="v"), namespace)
        await seen(informer, made["metadata"]["resourceVersion"])
        found = informer.get("mine", namespace)
        assert found is not None
        assert found.data == {"k": "v"}


@pytest.mark.parametrize("settings", [STREAMED, PAGED], ids=["streamed", "paged"])
async def test_managed_fields_of_thousands_of_levels_do_not_stop_an_informer(
    client: Client, namespace: str, settings: WatchSettings
) -> None:
    """The API server stores what any user writes there, up to 10,000 levels, and sends it to every watch."""
    levels = 3_000
    path = CONFIG_MAPS.path(namespace)

    async def create_deep(name: str) -> None:
        entry = f'{{"manager":"x","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":{nested(levels)}}}'
        meta = f'{{"name":"{name}","labels":{{"test":"yes"}},"managedFields":[{entry}]}}'
        body = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{meta}}}'.encode()
        made = await client.create(MAPS, body, namespace)
        assert made.metadata.name == name
        stored = await client.raw(f"{path}/{name}")
        assert nested(levels).encode() in stored, "the server keeps every level"

    await client.create(MAPS, config_map("first"), namespace)
    await create_deep("deep")
    informer = Informer(client, MAPS, namespace=namespace, labels="test=yes", settings=settings)
    async with asyncio.timeout(60), running(informer):
        assert {found.metadata.name for found in informer} == {"first", "deep"}
        await create_deep("deep-too")
        last = await client.create(MAPS, config_map("last"), namespace)
        await seen(informer, last.metadata.resource_version)
        assert {found.metadata.name for found in informer} == {"first", "deep", "deep-too", "last"}


async def test_the_first_list_is_streamed_if_the_server_supports_it(client: Client, namespace: str) -> None:
    informer = Informer(client, MAPS, namespace=namespace, settings=STREAMED)
    lists = client.transport.counts["list", "configmaps", 200]
    gates = (await client.raw("/metrics")).decode()
    streams = re.search(r'kubernetes_feature_enabled\{name="WatchList",stage="[A-Z]*"\} 1', gates) is not None
    async with running(informer):
        # Kubernetes 1.33 has streamed lists, and they are off by default there.
        assert client.transport.counts["list", "configmaps", 200] == lists + (0 if streams else 1)


async def test_bookmarks_are_received_and_the_watch_resumes_without_a_new_list(
    client: Client, namespace: str
) -> None:
    async def change_another_namespace() -> None:
        """A server sends bookmarks only while versions advance."""
        for number in count():
            await client.patch(CONFIG_MAPS, "elsewhere", {"data": {"k": str(number)}}, "default")
            await asyncio.sleep(0.3)

    settings = WatchSettings(server_seconds=4.0)
    steps: list[Any] = []
    await client.create(CONFIG_MAPS, config_map("elsewhere"), "default")
    changing = asyncio.create_task(change_another_namespace())
    try:
        async with (
            asyncio.timeout(60),
            aclosing(Follower(client, MAPS, namespace=namespace, settings=settings).run()) as run,
        ):
            async for step in run:
                steps.append(step)
                if len([s for s in steps if isinstance(s, Batch) and not s.changes]) >= 3:
                    break
    finally:
        changing.cancel()
        await client.delete(CONFIG_MAPS, "elsewhere", "default")
    assert [type(step) for step in steps].count(Snapshot) == 1
    versions = [int(step.resource_version) for step in steps]
    assert versions == sorted(versions)


async def test_a_version_that_the_server_never_had_gives_a_new_snapshot(
    client: Client, namespace: str
) -> None:
    await client.create(CONFIG_MAPS, config_map("a"), namespace)
    assert "a" in await first_snapshot_after(client, namespace, "999999999")


async def first_snapshot_after(client: Client, namespace: str, version: str) -> list[str]:
    """The first step of a watch that starts at `version`."""
    settings = WatchSettings(idle_timeout=3.0, first_delay=0.05)
    follower = Follower(client, MAPS, namespace=namespace, settings=settings, on_error=lambda error: None)
    follower._version = version
    async with asyncio.timeout(30), aclosing(follower.run()) as run:
        step = await anext(run)
    assert isinstance(step, Snapshot)
    return [found.metadata.name for found in step.items]


async def test_a_cache_is_correct_after_disconnects_and_a_restarted_api_server(
    fresh_cluster: Callable[[], Cluster],
) -> None:
    cluster = fresh_cluster()
    admin = load(cluster.kubeconfig, environ={})
    parts = urlsplit(admin.server)
    dice = random.Random(3)
    async with CuttingProxy(parts.hostname or "", parts.port or 443) as proxy:
        config = msgspec.structs.replace(
            admin, server=f"https://127.0.0.1:{proxy.port}", server_name=parts.hostname
        )
        async with (
            Client(config) as watching,
            Client(admin, transport=Transport(admin, retry_seconds=90)) as writing,
        ):
            informer = Informer(watching, MAPS, namespace="default", labels="test=yes", settings=STREAMED)
            heard: dict[str, int] = {}
            informer.on_change(
                add=lambda new: heard.update({new.metadata.name: heard.get(new.metadata.name, 0) + 1}),
                delete=lambda old: heard.update({old.metadata.name: heard[old.metadata.name] - 1}),
            )
            truth: dict[str, str] = {}
            async with running(informer):
                for number in range(200):
                    name = f"m{dice.randrange(15)}"
                    if name in truth and dice.random() < 0.3:
                        await writing.delete(CONFIG_MAPS, name, "default")
                        del truth[name]
                    else:
                        body = CONFIG_MAPS.manifest(name, "default", data={"k": str(number)})
                        body["metadata"]["labels"] = {"test": "yes"}
                        await writing.apply(CONFIG_MAPS, name, body, "default")
                        truth[name] = str(number)
                    if dice.random() < 0.1:
                        proxy.cut_all()
                    if number == 100:
                        await asyncio.to_thread(cluster.part("kube-apiserver").restart)
                last = await writing.create(
                    CONFIG_MAPS, {"metadata": {"name": "last", "labels": {"test": "yes"}}}, "default"
                )
                await seen(informer, last["metadata"]["resourceVersion"])
                cached = {
                    found.metadata.name: found.data.get("k")
                    for found in informer
                    if found.metadata.name != "last"
                }
                assert cached == truth
                assert {name for name, count in heard.items() if count} == {*truth, "last"}
                assert set(heard.values()) <= {0, 1}
            # The API server has no history from before its restart: 410.
            assert "last" in await first_snapshot_after(writing, "default", "1")
