"""The same behaviours on a real API server and etcd."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import pytest_asyncio

from tests.kube.api.test_codec import nested
from tests.kube.conftest import seen
from tests.kube.cutting_proxy import CuttingProxy
from tests.testbed.cluster import Cluster
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import CONFIG_MAPS, LEASES, PODS, ROLE_BINDINGS, SERVICE_ACCOUNTS, resource
from vcjob.kube.config.auth import Fixed, TokenFile, bearer
from vcjob.kube.config.config import load
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.lease import Election, LeaseSettings
from vcjob.kube.controller.watch import Batch, Follower, Snapshot, WatchSettings
from vcjob.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from vcjob.kube.http.transport import Request, Transport

pytestmark = pytest.mark.cluster

STREAMED = WatchSettings(first_delay=0.05, longest_delay=0.5)
PAGED = WatchSettings(first_delay=0.05, longest_delay=0.5, stream_first_list=False, page_size=3)
FLOW_SCHEMAS = resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = resource(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)


class LabelledMeta(Meta):
    labels: dict[str, str] = {}


class PartialMap(msgspec.Struct, gc=False):
    metadata: LabelledMeta
    data: dict[str, str] = {}


MAPS = CONFIG_MAPS.read_as(PartialMap)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": data}


@pytest_asyncio.fixture
async def client(api_server: Cluster) -> AsyncIterator[Client]:
    config = load(api_server.kubeconfig, environ={})
    async with Client(config, transport=Transport(config, retry_seconds=60)) as made:
        yield made


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


async def test_every_verb_works(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", k="1"), namespace)
    with pytest.raises(AlreadyExists) as caught:
        await client.create(CONFIG_MAPS, config_map("a"), namespace)
    assert caught.value.reason == "AlreadyExists"
    await client.replace(CONFIG_MAPS, "a", {**made, "data": {"k": "2"}}, namespace)
    with pytest.raises(Conflict):
        await client.replace(CONFIG_MAPS, "a", {**made, "data": {"k": "3"}}, namespace)
    await client.patch(CONFIG_MAPS, "a", {"data": {"k": "4"}}, namespace)
    await client.patch(
        CONFIG_MAPS, "a", [{"op": "add", "path": "/data/j", "value": "5"}], namespace, kind="json"
    )
    await client.patch(CONFIG_MAPS, "a", {"data": {"i": "6"}}, namespace, kind="strategic")
    assert (await client.get(MAPS, "a", namespace)).data == {"k": "4", "j": "5", "i": "6"}
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "a", namespace, uid="00000000-0000-0000-0000-000000000000")
    assert await client.delete(CONFIG_MAPS, "a", namespace, uid=made["metadata"]["uid"])
    assert not await client.delete(CONFIG_MAPS, "a", namespace)
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "a", namespace)


async def test_a_list_is_paged(client: Client, namespace: str) -> None:
    await asyncio.gather(*(client.create(CONFIG_MAPS, config_map(f"m{n}"), namespace) for n in range(8)))
    pages = [
        len(page.items or [])
        async for page in client.pages(CONFIG_MAPS, namespace, labels="test=yes", limit=3)
    ]
    assert pages == [3, 3, 2]
    assert len(await client.list(MAPS, namespace, labels="test=yes")) == 8
    assert await client.list(MAPS, namespace, labels="test=no") == []


async def test_apply_creates_changes_and_names_other_owners(client: Client, namespace: str) -> None:
    body = CONFIG_MAPS.manifest("a", namespace, data={"k": "1"})
    await client.apply(CONFIG_MAPS, "a", body, namespace)
    other = Client(client.config, transport=client.transport, field_manager="someone-else")
    changed = {**body, "data": {"k": "2"}}
    with pytest.raises(Conflict, match="vcjob"):
        await other.apply(CONFIG_MAPS, "a", changed, namespace)
    await other.apply(CONFIG_MAPS, "a", changed, namespace, dry_run=True, force=True)
    assert (await client.get(MAPS, "a", namespace)).data == {"k": "1"}
    await other.apply(CONFIG_MAPS, "a", changed, namespace, force=True)
    assert (await client.get(MAPS, "a", namespace)).data == {"k": "2"}


async def test_the_status_of_a_pod_is_patched_apart_from_its_spec(client: Client, namespace: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "nobody"}
    await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, namespace)
    patched = await client.patch(PODS, "p", {"status": {"phase": "Running"}}, namespace, subresource="status")
    assert patched["status"]["phase"] == "Running"
    await client.delete(PODS, "p", namespace, grace_seconds=0)


async def test_an_invalid_object_lists_every_invalid_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as caught:
        await client.create(
            PODS, {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "BAD"}]}}, namespace
        )
    fields = {cause["field"] for cause in caught.value.causes}
    assert "spec.containers[0].name" in fields
    assert "spec.containers[0].image" in fields


async def test_a_user_without_permission_learns_what_is_forbidden(
    api_server: Cluster, namespace: str
) -> None:
    async with Client(load(api_server.identity("alice"), environ={})) as alice:
        with pytest.raises(Forbidden, match='User "alice" cannot list resource "configmaps"') as caught:
            await alice.list(CONFIG_MAPS, namespace)
        with pytest.raises(Forbidden):
            await anext(Follower(alice, CONFIG_MAPS, namespace=namespace).run())
    assert caught.value.exit_code == 3
    assert caught.value.hint


async def test_tokens_are_accepted_refused_and_read_again(
    client: Client, namespace: str, tmp_path: Path
) -> None:
    token = await client.transport.send(_token_request(namespace))
    file = tmp_path / "token"
    file.write_text("not a token")
    config = msgspec.structs.replace(client.config, source=TokenFile(file))
    async with Client(config) as account:
        with pytest.raises(Unauthorized):
            await account.list(CONFIG_MAPS, namespace)
        file.write_text(msgspec.json.decode(token)["status"]["token"])
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:default"):
            await account.list(CONFIG_MAPS, namespace)
    config = msgspec.structs.replace(client.config, source=Fixed(bearer("expired")))
    async with Client(config) as nobody:
        with pytest.raises(Unauthorized) as caught:
            await nobody.list(CONFIG_MAPS, namespace)
    assert "log in again" in (caught.value.hint or "")


def _token_request(namespace: str) -> Request:
    path = SERVICE_ACCOUNTS.path(namespace, "default", "token")
    body = b'{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":[]}}'
    return Request(
        method="POST", target=path, path=path, verb="create", body=body, content_type="application/json"
    )


async def test_a_kind_is_discovered(client: Client) -> None:
    assert await client.discover("flowcontrol.apiserver.k8s.io/v1", "FlowSchema") == FLOW_SCHEMAS
    assert await client.discover("example.io/v1", "Nothing") is None
    assert (await client.version()).startswith("v1.")


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


async def test_refusals_of_an_overloaded_server_are_retried_and_reduce_the_window(
    client: Client, api_server: Cluster, namespace: str
) -> None:
    """Priority and fairness lets bob do one thing at a time and refuses the rest with 429."""
    bob = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}
    role = {"kind": "ClusterRole", "apiGroup": "rbac.authorization.k8s.io", "name": "edit"}
    await client.create(
        ROLE_BINDINGS, {"metadata": {"name": "bob"}, "subjects": [bob], "roleRef": role}, namespace
    )
    limited = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    level = PRIORITY_LEVELS.manifest("narrow", spec={"type": "Limited", "limited": limited})
    rule = {
        "subjects": [{"kind": "User", "user": {"name": "bob"}}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
    }
    spec = {"priorityLevelConfiguration": {"name": "narrow"}, "matchingPrecedence": 2, "rules": [rule]}
    config = load(api_server.identity("bob"), environ={})
    try:
        await client.apply(PRIORITY_LEVELS, "narrow", level)
        await client.apply(FLOW_SCHEMAS, "narrow", FLOW_SCHEMAS.manifest("narrow", spec=spec))
        async with Client(config, transport=Transport(config, retry_seconds=60)) as patient:
            refused, made = 0, 0
            async with asyncio.timeout(60):
                while not refused:  # the server applies the new rule a little later
                    batch = range(made, made + 40)
                    await asyncio.gather(
                        *(patient.create(CONFIG_MAPS, config_map(f"m{n}"), namespace) for n in batch)
                    )
                    made += 40
                    refused = patient.transport.counts["create", "configmaps", 429]
            assert patient.transport.window.size < 32
        assert len(await client.list(CONFIG_MAPS, namespace, labels="test=yes")) == made
    finally:
        await client.delete(FLOW_SCHEMAS, "narrow")
        await client.delete(PRIORITY_LEVELS, "narrow")


async def test_lost_responses_neither_duplicate_nor_lose_objects(
    api_server: Cluster, client: Client, namespace: str
) -> None:
    owner = await client.create(CONFIG_MAPS, {"metadata": {"name": "owner"}}, namespace)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    parts = urlsplit(client.config.server)
    async with CuttingProxy(parts.hostname or "", parts.port or 443) as proxy:
        config = msgspec.structs.replace(
            client.config, server=f"https://127.0.0.1:{proxy.port}", server_name=parts.hostname
        )
        async with Client(config, transport=Transport(config, retry_seconds=60)) as shaky:
            await shaky.version()
            proxy.chance = 0.1
            bodies = [config_map(f"m{n}") for n in range(150)]
            for body in bodies:
                body["metadata"]["ownerReferences"] = [reference]
            made = await asyncio.gather(*(shaky.create(MAPS, body, namespace) for body in bodies))
    assert proxy.cuts > 5
    there = await client.list(MAPS, namespace, labels="test=yes")
    assert {found.metadata.uid for found in there} == {found.metadata.uid for found in made}
    assert len(there) == 150


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


async def test_one_leads_at_a_time_and_a_released_lease_is_acquired_at_once(
    client: Client, namespace: str
) -> None:
    settings = LeaseSettings(lease_seconds=6.0, renew_seconds=4.0, retry_seconds=0.3)
    acting: list[str] = []
    most = 0

    def candidate(name: str) -> Any:
        async def lead() -> None:
            nonlocal most
            acting.append(name)
            most = max(most, len(acting))
            await asyncio.sleep(0.3)
            acting.remove(name)

        return Election(client, "leader", namespace, identity=name, settings=settings).run(lead)

    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(candidate(name) for name in "abc"))
    assert most == 1
    assert asyncio.get_running_loop().time() - began < 6.0  # no lease had to expire
    lease = await client.get(LEASES, "leader", namespace)
    assert not lease["spec"].get("holderIdentity")
    assert lease["spec"]["leaseTransitions"] == 2


class running:
    """A running, synced informer."""

    def __init__(self, informer: Informer[Any]) -> None:
        self._informer = informer

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._informer.run())
        await asyncio.wait_for(self._informer.synced.wait(), 30)

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
