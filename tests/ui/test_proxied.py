"""The UI behind an authenticating proxy: whose requests it accepts, and as whom they act."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.cluster.controller.conftest import ControllerCluster, establish
from tests.cluster.controller.jobs import job, task
from tests.testbed.cluster import Cluster
from vcjob.sdk.cluster_backend import ImpersonatingBackend
from vcjob.sdk.local_backend import LocalBackend
from vcjob.ui import proxied
from vcjob.ui.proxied import SECRET_HEADER, Identity, Proxy
from vcjob.ui.server import serve

SECRET = "of-the-proxy"
ANN = ("X-Remote-User", "ann")
FROM_PROXY = (SECRET_HEADER, SECRET)
Header = tuple[str, str]


class RecordingBackend(LocalBackend):
    """The backend of one user; it records what is asked and whether it was closed."""

    def __init__(self, identity: Identity) -> None:
        super().__init__()
        self.identity = identity
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Server:
    """A running server behind a proxy; `request` sends what the proxy would send."""

    def __init__(self, origin: str, session: aiohttp.ClientSession) -> None:
        self.origin = origin.rstrip("/")
        self._session = session

    async def get(self, path: str, *headers: Header) -> tuple[int, str]:
        return await self.request("GET", path, *headers)

    async def request(self, method: str, path: str, *headers: Header, body: object = None) -> tuple[int, str]:
        async with self._session.request(method, self.origin + path, headers=headers, json=body) as response:
            return response.status, await response.text()


@asynccontextmanager
async def serving(proxy: Proxy, *, read_only: bool = False) -> AsyncIterator[Server]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(serve(proxy, read_only=read_only, on_ready=ready.set_result))
    async with aiohttp.ClientSession() as session:
        yield Server(await ready, session)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
def backends() -> list[RecordingBackend]:
    """The backends that were opened, in order."""
    return []


@pytest_asyncio.fixture(params=[{}])
async def server(
    request: pytest.FixtureRequest,
    backends: list[RecordingBackend],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Server]:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))

    def backend_of(identity: Identity) -> RecordingBackend:
        backends.append(RecordingBackend(identity))
        return backends[-1]

    async with serving(Proxy(backend_of, secret=SECRET), **request.param) as running:
        yield running


async def test_requests_act_as_the_user_whom_the_proxy_names(
    server: Server, backends: list[RecordingBackend]
) -> None:
    groups = (("X-Remote-Group", "ml, team"), ("X-Remote-Group", "all"))
    assert (await server.get("/api/jobs", FROM_PROXY, ANN, *groups))[0] == 200
    assert (await server.get("/api/jobs", FROM_PROXY, ("X-Remote-User", "bob")))[0] == 200
    assert (await server.get("/api/info", FROM_PROXY, ANN, *groups))[0] == 200
    assert [each.identity for each in backends] == [
        Identity("ann", ("all", "ml", "team")),
        Identity("bob", ()),
    ]


async def test_the_page_needs_no_token(server: Server) -> None:
    assert "#token" not in server.origin
    assert (await server.get("/", FROM_PROXY, ANN))[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        (ANN,),
        (ANN, (SECRET_HEADER, "wrong")),
        (FROM_PROXY,),
        (FROM_PROXY, ("X-Remote-User", "")),
        (FROM_PROXY, ANN, ("X-Remote-User", "admin")),
        (FROM_PROXY, ("X-Remote-User", "system:admin")),
        (FROM_PROXY, ANN, ("X-Remote-Group", "team,system:masters")),
        (FROM_PROXY, ANN, ("X-Remote-Group", "system:masters")),
        (FROM_PROXY, ("X-Remote-User", "ann\u200b")),
        (FROM_PROXY, ("X-Forwarded-User", "ann")),
        (FROM_PROXY, ("Authorization", "Bearer ")),
    ],
    ids=["no secret", "wrong secret", "no user", "empty user", "two users", "cluster user", "cluster group in a list",
         "cluster group", "invisible character", "another header", "only a token"],
)  # fmt: skip
async def test_an_identity_that_is_not_the_proxys_is_rejected(
    server: Server, backends: list[RecordingBackend], headers: tuple[Header, ...]
) -> None:
    for path in ("/", "/api/jobs", "/static/app.js"):
        assert (await server.get(path, *headers))[0] == 403
    assert backends == []


async def test_a_secret_that_is_not_utf_8_is_wrong(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    port = int(server.origin.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"GET / HTTP/1.1\r\nHost: ui\r\nConnection: close\r\n" + SECRET_HEADER.encode() + b": \xff\r\n\r\n"
    )
    assert (await reader.read()).startswith(b"HTTP/1.1 403")
    writer.close()
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ((("Origin", "http://["),), 403),
        ((("Origin", "https://attacker.example"),), 403),
        ((("Origin", "null"),), 403),
        ((("Sec-Fetch-Site", "cross-site"),), 403),
        ((("Sec-Fetch-Site", "same-site"),), 403),
        ((("Origin", "https://ui.example"), ("X-Forwarded-Host", "ui.example")), 200),
        ((("Sec-Fetch-Site", "same-origin"),), 200),
    ],
)
async def test_another_site_cannot_use_the_users_session_with_the_proxy(
    server: Server, headers: tuple[Header, ...], expected: int
) -> None:
    body = {"text": "kind: Job"}
    status, _ = await server.request("POST", "/api/validate", FROM_PROXY, ANN, *headers, body=body)
    assert status == expected


@pytest.mark.parametrize("server", [{"read_only": True}], indirect=True)
async def test_a_read_only_server_changes_nothing_for_anybody(server: Server) -> None:
    for path in ("run", "jobs/default/a/actions/stop", "jobs/default/a/stacks"):
        status, text = await server.request(
            "POST", f"/api/{path}", FROM_PROXY, ANN, body={"text": "kind: Job"}
        )
        assert status == 403 and "read-only" in text


async def test_the_number_of_users_with_connections_is_bounded(
    server: Server, backends: list[RecordingBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxied, "MAX_USERS", 3)
    for number in (0, 1, 2, 0, 3, 4):
        await server.get("/api/info", FROM_PROXY, ("X-Remote-User", f"user-{number}"))
    assert [each.identity.user for each in backends if each.closed] == ["user-1", "user-2"]


async def test_a_user_who_is_removed_while_another_one_is_closed_is_answered(
    server: Server, backends: list[RecordingBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for one user, ann's request waits for bob's connections to close, and meanwhile eve takes her place."""
    monkeypatch.setattr(proxied, "MAX_USERS", 1)
    closing, may_close = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def close_slowly() -> None:
        loop.call_soon_threadsafe(closing.set)
        may_close.wait(60)

    await server.get("/api/info", FROM_PROXY, ("X-Remote-User", "bob"))
    monkeypatch.setattr(backends[0], "close", close_slowly)
    waiting = asyncio.create_task(server.get("/api/info", FROM_PROXY, ANN))
    try:
        async with asyncio.timeout(60):
            await closing.wait()
        assert (await server.get("/api/info", FROM_PROXY, ("X-Remote-User", "eve")))[0] == 200
    finally:
        may_close.set()
    assert (await waiting)[0] == 200


async def test_a_stream_ends_so_that_the_proxy_checks_the_session_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxied, "STREAM_SECONDS", 0.5)
    async with asyncio.timeout(60):
        status, text = await server.get("/api/stream", FROM_PROXY, ANN)
    assert status == 200 and text.startswith("event: jobs") and "event: end" not in text


@pytest.fixture
def few_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxied, "MAX_STREAMS", 2)


async def test_the_streams_of_all_users_together_are_limited(few_streams: None, server: Server) -> None:
    url = f"{server.origin}/api/stream"

    async def status(session: aiohttp.ClientSession, user: str) -> int:
        response = await session.get(url, headers=[FROM_PROXY, ("X-Remote-User", user)])
        return response.status

    async with aiohttp.ClientSession() as session:
        assert [await status(session, user) for user in ("ann", "bob", "eve")] == [200, 200, 503]
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        while await status(session, "eve") == 503:
            await asyncio.sleep(0.01)


@pytest.fixture
def impersonator(api_server: Cluster, namespace: str) -> Iterator[Callable[[Identity], ImpersonatingBackend]]:
    """Opens backends over an account that may impersonate and nothing else."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    account = f"ui-{namespace}"
    rules = [{"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": account}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account}
    api = api_server.api
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": account}, "rules": rules})
    api.create(
        f"{rbac}/clusterrolebindings",
        {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]},
    )
    kubeconfig = str(api_server.identity(account))
    opened: list[ImpersonatingBackend] = []

    def open_backend(identity: Identity) -> ImpersonatingBackend:
        opened.append(ImpersonatingBackend(None, kubeconfig, *identity))
        return opened[-1]

    yield open_backend
    for kind in ("clusterrolebindings", "clusterroles"):
        api.delete(f"{rbac}/{kind}/{account}")


def allow_reading(cluster: Cluster, namespace: str, group: str) -> None:
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [
        {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
    ]
    cluster.api.create(f"{rbac}/roles", {"metadata": {"name": "reader"}, "rules": rules})
    cluster.api.create(
        f"{rbac}/rolebindings",
        {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        },
    )


@pytest.mark.cluster
async def test_on_a_cluster_every_user_has_their_own_permissions(
    api_server: Cluster, namespace: str, impersonator: Callable[[Identity], Any]
) -> None:
    establish(api_server)
    ControllerCluster(api_server, namespace).create(job("a", task("worker", 1)))
    allow_reading(api_server, namespace, "readers")
    path = f"/api/jobs/{namespace}/a"
    reader = (FROM_PROXY, ANN, ("X-Remote-Group", "readers"))
    async with serving(Proxy(impersonator, secret=SECRET)) as server:
        status, text = await server.get(path, *reader)
        assert status == 200 and '"name":"a"' in text
        status, text = await server.get(path, FROM_PROXY, ("X-Remote-User", "bob"))
        assert status == 502 and "bob" in text and "cannot get" in text
        status, text = await server.request("POST", f"{path}/actions/suspend", *reader)
        assert status == 502 and "ann" in text and "commands" in text
