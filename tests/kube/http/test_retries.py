"""Which requests are retried, which are never sent twice, and when the transport gives up."""

from __future__ import annotations

import asyncio

import pytest

from tests.kube.conftest import pod
from tests.kube.fake_api import FakeApi, refuse
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import PODS
from vcjob.kube.config.auth import Credential, Fixed, bearer
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import (
    AlreadyExists,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from vcjob.kube.http.transport import Transport

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner-uid"}


async def test_a_deletion_whose_response_was_lost_counts_as_done(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    api.on_next("DELETE", "pods", api.work_then_hang_up)
    assert await client.delete(PODS, "a", "default") is True


@pytest.mark.slow
async def test_429_is_retried_after_retry_after(api: FakeApi, client: Client) -> None:
    api.on_next("POST", "pods", refuse(429, "TooManyRequests", headers={"Retry-After": "1"}))
    began = asyncio.get_running_loop().time()
    await client.create(PODS, pod("a"), "default")
    assert asyncio.get_running_loop().time() - began >= 1.0
    assert client.transport.counts["create", "pods", 429] == 1
    assert client.transport.counts["create", "pods", 201] == 1


async def test_429_is_raised_when_retry_after_exceeds_the_retry_time(api: FakeApi, client: Client) -> None:
    api.on_next("GET", "pods", refuse(429, "TooManyRequests", headers={"Retry-After": "60"}))
    with pytest.raises(TooManyRequests) as caught:
        await client.get(PODS, "a", "default")
    assert caught.value.retry_after == 60


async def test_a_closed_connection_is_replaced_at_once(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    api.on_next("GET", "pods", api.hang_up)
    assert (await client.get(PODS, "a", "default"))["metadata"]["name"] == "a"
    assert api.count("GET") == 2


async def test_a_create_whose_response_was_lost_is_not_done_twice(api: FakeApi, client: Client) -> None:
    api.on_next("POST", "pods", api.work_then_hang_up)
    made = await client.create(PODS, pod("a", ownerReferences=[OWNER], labels={"attempt": "1"}), "default")
    assert made["metadata"]["uid"] == api.objects["pods", "default", "a"]["metadata"]["uid"]
    assert len(api.objects) == 1


@pytest.mark.parametrize(
    "there",
    [
        {"ownerReferences": [{**OWNER, "uid": "someone-else"}], "labels": {"attempt": "1"}},
        {"ownerReferences": [OWNER], "labels": {"attempt": "0"}},
        {"ownerReferences": [OWNER], "labels": {"attempt": "1"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        {},
    ],
)
async def test_another_object_of_the_same_name_is_never_taken_for_ours(
    api: FakeApi, client: Client, there: dict[str, object]
) -> None:
    await api.put("pods", "a", metadata=there)
    api.on_next("POST", "pods", api.hang_up)
    with pytest.raises(AlreadyExists):
        await client.create(PODS, pod("a", ownerReferences=[OWNER], labels={"attempt": "1"}), "default")


async def test_a_create_with_generate_name_is_never_sent_twice(api: FakeApi, client: Client) -> None:
    api.on_next("POST", "pods", api.work_then_hang_up)
    with pytest.raises(Unreachable) as caught:
        await client.create(PODS, {"metadata": {"generateName": "a-"}}, "default")
    assert caught.value.may_have_applied
    assert api.count("POST") == 1


async def test_a_json_patch_is_not_repeated_after_a_lost_response(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    api.on_next("PATCH", "pods", api.work_then_hang_up)
    with pytest.raises(Unreachable):
        await client.patch(PODS, "a", [{"op": "add", "path": "/x/-", "value": 1}], "default", kind="json")
    assert api.count("PATCH") == 1


async def test_a_server_error_is_retried_for_reads_and_raised_for_writes(
    api: FakeApi, client: Client
) -> None:
    await api.put("pods", "a")
    api.on_next("GET", "pods", refuse(500, "InternalError", "etcdserver: leader changed"))
    await client.get(PODS, "a", "default")
    api.on_next("POST", "pods", refuse(500, "InternalError", "failed calling webhook"))
    with pytest.raises(ServerError, match="failed calling webhook"):
        await client.create(PODS, pod("b"), "default")


async def test_503_is_retried_for_idempotent_writes(api: FakeApi, client: Client) -> None:
    api.on_next("POST", "pods", refuse(503, "ServiceUnavailable", "shutting down"), times=2)
    await client.create(PODS, pod("a"), "default")
    api.on_next("POST", "pods", refuse(503, "ServiceUnavailable", "shutting down"))
    with pytest.raises(ServerError):
        await client.create(PODS, {"metadata": {"generateName": "a-"}}, "default")


async def test_an_unreachable_server_is_reported_with_a_hint() -> None:
    config = ClusterConfig(server="http://127.0.0.1:1", source=Fixed(), context="prod")
    async with Client(config, transport=Transport(config, retry_seconds=0.2)) as client:
        with pytest.raises(
            Unreachable, match=r"no response from the API server http://127.0.0.1:1 \(context 'prod'\)"
        ) as caught:
            await client.list(PODS)
    assert caught.value.hint
    assert not caught.value.may_have_applied


async def test_a_timeout_halves_the_window(api: FakeApi, client: Client) -> None:
    async def sleep(_: object) -> None:
        await asyncio.sleep(0.5)

    api.on_next("GET", "pods", sleep)
    before = client.transport.window.size
    with pytest.raises(Unreachable, match=r"no response in 0\.1 s"):
        await client.get(PODS, "a", "default", timeout=0.1, retry_seconds=0)
    assert client.transport.window.size == before // 2


async def test_a_refused_token_is_fetched_again_once(api: FakeApi) -> None:
    class Rotating:
        current = bearer("old")

        async def get(self) -> Credential:
            return self.current

        def invalidate(self) -> bool:
            self.current = bearer("new")
            return True

    await api.put("pods", "a")
    api.on_next("GET", "pods", refuse(401, "Unauthorized"))
    config = ClusterConfig(server=api.url, source=Rotating())
    async with Client(config) as client:
        await client.get(PODS, "a", "default")
        api.on_next("GET", "pods", refuse(401, "Unauthorized"), times=2)
        with pytest.raises(Unauthorized):
            await client.get(PODS, "a", "default")
    assert [headers["Authorization"] for headers in api.headers[:2]] == ["Bearer old", "Bearer new"]
