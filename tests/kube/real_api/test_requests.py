"""Requests to a real API server, and a Lease in it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.kube.cutting_proxy import CuttingProxy
from tests.kube.real_api.maps import MAPS, config_map
from tests.testbed.cluster import Cluster
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CONFIG_MAPS, LEASES, PODS, ROLE_BINDINGS, SERVICE_ACCOUNTS, resource
from vcjob.kube.config.auth import Fixed, TokenFile, bearer
from vcjob.kube.config.config import load
from vcjob.kube.controller.lease import Election, LeaseSettings
from vcjob.kube.controller.watch import Follower
from vcjob.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from vcjob.kube.http.transport import Request, Transport

pytestmark = pytest.mark.cluster

FLOW_SCHEMAS = resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", namespaced=False)
PRIORITY_LEVELS = resource(
    "flowcontrol.apiserver.k8s.io",
    "v1",
    "prioritylevelconfigurations",
    "PriorityLevelConfiguration",
    namespaced=False,
)


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


async def test_one_leads_at_a_time_and_a_released_lease_is_acquired_at_once(
    client: Client, namespace: str
) -> None:
    settings = LeaseSettings(lease_seconds=60.0, renew_seconds=40.0, retry_seconds=0.3)
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
    assert asyncio.get_running_loop().time() - began < 60.0  # no lease had to expire
    lease = await client.get(LEASES, "leader", namespace)
    assert not lease["spec"].get("holderIdentity")
    assert lease["spec"]["leaseTransitions"] == 2
