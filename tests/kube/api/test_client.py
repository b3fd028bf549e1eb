"""The client's verbs: what is sent, returned and raised."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import msgspec
import pytest

from tests.kube.conftest import pod
from tests.kube.fake_api import FakeApi, refuse, status
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CONFIG_MAPS, PODS, Resource, resource
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    InvalidResponse,
    LeaseLost,
    NotFound,
    Unauthorized,
)
from vcjob.kube.http.transport import Transport
from vcjob.kube.http.window import Window


class Meta(msgspec.Struct):
    name: str


class Lean(msgspec.Struct):
    metadata: Meta


async def test_a_created_object_is_read_back_with_every_field_it_had(client: Client) -> None:
    made = await client.create(PODS, pod("a"), "default")
    assert made["spec"] == {"futureField": 1}
    assert (await client.get(PODS, "a", "default"))["metadata"]["uid"] == made["metadata"]["uid"]


async def test_an_object_is_read_into_the_callers_struct(client: Client) -> None:
    await client.create(PODS, pod("a"), "default")
    assert (await client.get(PODS.read_as(Lean), "a", "default")).metadata.name == "a"


async def test_a_list_is_fetched_in_pages(api: FakeApi, client: Client) -> None:
    for number in range(7):
        await api.put("pods", f"p{number}")
    pages = [len(page.items or []) async for page in client.pages(PODS, "default", limit=3)]
    assert pages == [3, 3, 1]
    assert len(await client.list(PODS)) == 7


async def test_replace_with_an_old_version_is_a_conflict(client: Client) -> None:
    first = await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest("c", "default", data={"a": "1"}), "default")
    await client.replace(CONFIG_MAPS, "c", {**first, "data": {"a": "2"}}, "default")
    with pytest.raises(Conflict, match="has been modified"):
        await client.replace(CONFIG_MAPS, "c", {**first, "data": {"a": "3"}}, "default")


async def test_a_list_of_metadata_asks_for_no_more(api: FakeApi, client: Client) -> None:
    partial = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    for kind, wanted in ((PODS, False), (PODS.read_metadata_as(dict), True)):
        await client.list(kind, "default")
        assert (partial in api.headers[-1]["Accept"]) is wanted


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
    ],
)
async def test_a_patch_has_the_content_type_of_its_kind(
    api: FakeApi, client: Client, kind: str, content_type: str
) -> None:
    await api.put("pods", "a")
    body = [] if kind == "json" else {"status": {"phase": "Running"}}
    await client.patch(PODS, "a", body, "default", kind=kind, subresource="status")  # type: ignore[arg-type]
    assert api.headers[-1]["Content-Type"] == content_type
    assert api.requests[-1][1].endswith("/pods/a/status")


async def test_apply_names_its_field_manager_and_may_force(api: FakeApi, client: Client) -> None:
    await client.apply(
        CONFIG_MAPS, "c", CONFIG_MAPS.manifest("c", "default", data={"k": "v"}), "default", force=True
    )
    _, _, query = api.requests[-1]
    assert api.headers[-1]["Content-Type"] == "application/apply-patch+yaml"
    assert query == {"fieldManager": "vcjob", "force": "true"}


async def test_deleting_an_object_that_does_not_exist_is_no_error(client: Client) -> None:
    assert await client.delete(PODS, "nobody", "default") is False


async def test_an_object_with_another_uid_is_not_deleted(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    with pytest.raises(Conflict):
        await client.delete(PODS, "a", "default", uid="another")
    assert ("pods", "default", "a") in api.objects


async def test_log_lines_are_complete_for_any_chunks(api: FakeApi, client: Client) -> None:
    api.logs["a"] = [b"one\ntw", b"o\n", b"x" * 300_000, b"\nlast without end"]
    lines = [line async for line in client.logs("a", "default", follow=True, tail=3)]
    assert lines == [b"one", b"two", b"x" * 300_000, b"last without end"]
    assert api.requests[-1][2] == {"follow": "true", "tailLines": "3"}


async def test_a_kind_is_found_by_discovery(client: Client) -> None:
    found = await client.discover("example.io/v1", "Widget")
    assert found == resource("example.io", "v1", "widgets", "Widget")
    assert await client.discover("example.io/v1", "Gadget") is None
    assert await client.discover("nobody.io/v1", "Widget") is None
    assert await client.discover("v1", "Pod") == PODS


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refuse(403, "Forbidden", "pods is forbidden: exceeded quota: q"), Forbidden),
        (refuse(404, "NotFound"), NotFound),
        (refuse(422, "Invalid", "spec.containers: Required value"), Invalid),
        (refuse(401, "Unauthorized"), Unauthorized),
    ],
)
async def test_a_refusal_keeps_the_servers_message(
    api: FakeApi, client: Client, answer: object, kind: type[ApiError]
) -> None:
    api.on_next("POST", "pods", answer)  # type: ignore[arg-type]
    with pytest.raises(kind) as caught:
        await client.create(PODS, pod("a"), "default")
    error = caught.value
    assert error.server_message in str(error)
    assert (error.verb, error.path) == ("create", "/api/v1/namespaces/default/pods")
    assert error.exit_code == 3
    assert api.count("POST") == 1


async def test_the_plain_text_of_a_proxy_is_kept_as_the_reason(api: FakeApi, client: Client) -> None:
    from aiohttp import web

    api.on_next("GET", "pods", web.Response(status=403, text="blocked by the gatekeeper"))
    with pytest.raises(Forbidden, match="blocked by the gatekeeper"):
        await client.get(PODS, "a", "default")


async def test_a_response_without_a_kubernetes_object_is_reported_in_one_sentence(
    api: FakeApi, client: Client
) -> None:
    from aiohttp import web

    api.on_next("GET", "pods", web.Response(status=200, text="<html>login</html>"))
    with pytest.raises(InvalidResponse, match="is invalid: JSON is malformed"):
        await client.get(PODS, "a", "default")
    api.on_next("GET", "pods", web.Response(status=302, headers={"Location": "/login"}))
    with pytest.raises(InvalidResponse, match="with 302") as caught:
        await client.get(PODS, "a", "default")
    assert caught.value.hint == "is it a Kubernetes API server?"


async def test_a_guarded_client_reads_but_no_longer_writes(api: FakeApi, client: Client) -> None:
    await api.put("pods", "a")
    holds = True

    def guard() -> None:
        if not holds:
            raise LeaseLost("lost")

    leader = client.guarded(guard)
    await leader.create(PODS, pod("b"), "default")
    holds = False
    await leader.get(PODS, "a", "default")
    for write in (
        leader.create(PODS, pod("c"), "default"),
        leader.replace(PODS, "a", pod("a"), "default"),
        leader.patch(PODS, "a", {}, "default"),
        leader.delete(PODS, "a", "default"),
    ):
        with pytest.raises(LeaseLost):
            await write
    assert len(api.objects) == 2


async def test_a_write_that_waited_for_the_window_is_guarded_when_it_is_sent(api: FakeApi) -> None:
    config = ClusterConfig(server=api.url, source=Fixed())
    gate = asyncio.Event()
    arrived = asyncio.Event()

    async def wait(_: object) -> None:
        arrived.set()
        await gate.wait()

    api.on_next("POST", "pods", wait)
    holds = True

    def guard() -> None:
        if not holds:
            raise LeaseLost("lost")

    async with Client(config, transport=Transport(config, window=Window(1, floor=1, ceiling=1))) as plain:
        client = plain.guarded(guard)
        first = asyncio.create_task(client.create(PODS, pod("a"), "default"))
        await arrived.wait()
        second = asyncio.create_task(client.create(PODS, pod("b"), "default"))
        await asyncio.sleep(0)
        holds = False
        gate.set()
        await first
        with pytest.raises(LeaseLost):
            await second
    assert list(api.objects) == [("pods", "default", "a")]


async def test_requests_are_observed_by_verb_and_status(api: FakeApi) -> None:
    config = ClusterConfig(server=api.url, source=Fixed())
    seen: list[tuple[str, str, int]] = []
    transport = Transport(config, observer=lambda verb, kind, code, seconds: seen.append((verb, kind, code)))
    async with Client(config, transport=transport) as client:
        await client.create(PODS, pod("a"), "default")
        await client.list(PODS)
        await client.delete(PODS, "a", "default")
        await client.delete(PODS, "a", "default")
    assert seen == [
        ("create", "pods", 201),
        ("list", "pods", 200),
        ("delete", "pods", 200),
        ("delete", "pods", 404),
    ]


async def test_the_servers_warnings_are_passed_on(api: FakeApi) -> None:
    from aiohttp import web

    config = ClusterConfig(server=api.url, source=Fixed())
    heard: list[str] = []
    api.on_next("GET", "pods", web.json_response({"metadata": {}}, headers={"Warning": '299 - "old API"'}))
    async with Client(config, transport=Transport(config, on_warning=heard.append)) as client:
        await client.get(PODS, "a", "default")
    assert heard == ["old API"]


async def test_a_request_can_receive_its_own_warnings(api: FakeApi) -> None:
    from aiohttp import web

    config = ClusterConfig(server=api.url, source=Fixed())
    heard: list[str] = []
    own: list[str] = []
    made = web.json_response({"metadata": {}}, headers={"Warning": '299 - "unknown field"'}, status=201)
    api.on_next("POST", "pods", made)
    async with Client(config, transport=Transport(config, on_warning=heard.append)) as client:
        await client.create(PODS, {"metadata": {"name": "a"}}, "default", on_warning=own.append)
    assert (own, heard) == (["unknown field"], [])


def test_the_causes_of_an_invalid_object_can_be_read_one_by_one() -> None:
    from vcjob.kube.errors import api_error, parse_status

    body = status(422, "Invalid", "two mistakes", causes=[{"field": "spec.a"}, {"field": "spec.b"}])
    error = api_error(422, parse_status(msgspec.json.encode(body)))
    assert [cause["field"] for cause in error.causes] == ["spec.a", "spec.b"]


def test_a_resource_keeps_its_names_when_read_into_a_struct() -> None:
    lean: Resource[Lean] = PODS.read_as(Lean)
    assert lean.path("n", "a") == PODS.path("n", "a")


def test_a_client_without_a_proxy_does_not_import_aiohttp() -> None:
    """It would more than double the start-up time of every command."""
    code = (
        "import sys, vcjob.kube.api.client as api, vcjob.kube.config.config as config\n"
        "from vcjob.kube.config.auth import Fixed\n"
        "api.Client(config.ClusterConfig(server='http://127.0.0.1:1', source=Fixed()))\n"
        "sys.exit('aiohttp' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
