"""The same requests through a proxy (aiohttp) and without one (own connections) have the same results."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from tests.kube.conftest import config_for, pod
from tests.kube.fake_api import FakeApi, refuse
from tests.kube.forward_proxy import ForwardProxy
from tests.kube.scripted_server import HEAD, LAST, Handler, ScriptedServer, chunk, says, waits
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import PODS
from vcjob.kube.config.auth import bearer
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.controller.watch import Batch, Snapshot, follow
from vcjob.kube.errors import ConfigError, KubeError
from vcjob.kube.http.aiohttp_client import AiohttpClient
from vcjob.kube.http.base import HttpClient, HttpRequest, Response, TransportError
from vcjob.kube.http.pooled import PooledClient
from vcjob.kube.http.transport import Transport

OK = b"HTTP/1.1 200 OK\r\n"
Flags = tuple[bool, bool, bool]
SENT, TIMED_OUT = (True, True, False), (True, True, True)


def ok(
    body: bytes = b"", status: int = 200, *, retry_after: str | None = None, date: bytes = b""
) -> Response:
    return Response(status, retry_after, body, [], date)


#: What the server sends, and the response or the error (message, then sent, retryable, timed_out).
RESPONSES: dict[str, tuple[Handler, Response | tuple[str, Flags]]] = {
    "length": (says(OK + b"Content-Length: 5\r\n\r\nhello"), ok(b"hello")),
    "chunks": (says(HEAD + chunk(b"hel") + chunk(b"lo") + LAST), ok(b"hello")),
    "chunk extension and trailer": (says(HEAD + b"5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n"), ok(b"hello")),
    "until close": (says(OK + b"\r\nhello"), ok(b"hello")),
    "empty": (says(OK + b"Content-Length: 0\r\n\r\n"), ok()),
    "no content": (says(b"HTTP/1.1 204 No Content\r\n\r\n"), ok(status=204)),
    "interim": (says(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok"), ok(b"ok")),
    "redirect": (says(b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"), ok(status=302)),
    "headers": (
        says(b"HTTP/1.1 429 Busy\r\nretry-after: 7\r\nDATE: today\r\nContent-Length: 4\r\n\r\nbusy"),
        ok(b"busy", 429, retry_after="7", date=b"today"),
    ),
    "warnings": (
        says(OK + b'Warning: 299 - "one"\r\nwarning: 299 - "two"\r\nContent-Length: 0\r\n\r\n'),
        Response(200, None, b"", ['299 - "one"', '299 - "two"']),
    ),
    "in pieces": (says(*(bytes([byte]) for byte in OK + b"Content-Length: 2\r\n\r\nok")), ok(b"ok")),
    "two lengths": (
        says(OK + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
        ("invalid HTTP response: .*Content-Length", SENT),
    ),
    "length with underscore": (
        says(OK + b"Content-Length: 1_0\r\n\r\nhellohello"),
        ("invalid HTTP response: .*Content-Length", SENT),
    ),
    "length with sign": (
        says(OK + b"Content-Length: +5\r\n\r\nhello"),
        ("invalid HTTP response: .*Content-Length", SENT),
    ),
    "length and chunks": (
        says(OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
        ("invalid HTTP response: .*can't be present with", SENT),
    ),
    "bad status": (says(b"HTTP/1.1 fine\r\n\r\n"), ("invalid HTTP response: .*status", SENT)),
    "no HTTP": (says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), ("invalid HTTP response: .*Expected HTTP", SENT)),
    "hexadecimal chunk size": (says(HEAD + b"0x5\r\nhello\r\n0\r\n\r\n"), ("invalid HTTP response: ", SENT)),
    "short body": (says(OK + b"Content-Length: 9\r\n\r\nhalf"), ("the server closed the connection", SENT)),
    "short chunk": (says(HEAD + b"9\r\nhalf"), ("the server closed the connection", SENT)),
    "nothing": (says(), ("the server closed the connection", SENT)),
    "no response in time": (waits, (r"no response in 0\.3 s", TIMED_OUT)),
    "no body in time": (says(HEAD, then=waits), (r"no response in 0\.3 s", TIMED_OUT)),
}  # fmt: skip


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("name", RESPONSES)
async def test_a_response_is_the_same_through_a_proxy_and_without_one(name: str, secure: bool) -> None:
    handler, expected = RESPONSES[name]
    async with ForwardProxy() as proxy:
        for proxied in (False, True):
            async with ScriptedServer(handler, secure=secure) as server:
                config = msgspec.structs.replace(server.config, proxy=proxy.url if proxied else None)
                http: HttpClient = AiohttpClient(config) if proxied else PooledClient(config)
                found: Response | TransportError
                try:
                    found = await http.request(
                        HttpRequest(
                            method="POST",
                            target="/a?b=c",
                            body=b"{}",
                            content_type="application/json",
                            timeout=0.3 if "time" in name else 10.0,
                        ),
                        bearer("token"),
                    )
                except TransportError as error:
                    found = error
                await http.close()
            where = "through a proxy" if proxied else "without a proxy"
            if isinstance(expected, Response):
                assert found == expected, where
            else:
                assert isinstance(found, TransportError), (where, found)
                message, flags = expected
                assert (found.sent, found.retryable, found.timed_out) == flags, where
                with pytest.raises(TransportError, match=message):
                    raise found
            assert server.asked[0].startswith(b"POST ")
            assert b"Authorization: Bearer token" in server.asked[0]
            assert b"Content-Type: application/json" in server.asked[0]
    assert len(proxy.requests) == 1, "only the client with a proxy used it"


@pytest.mark.parametrize("kind", [PooledClient, AiohttpClient])
@pytest.mark.parametrize(
    ("pieces", "received", "message"),
    [
        ((HEAD, chunk(b"one"), chunk(b"two"), LAST), b"onetwo", None),
        ((OK, b"\r\n", b"one"), b"one", None),
        ((HEAD, chunk(b"one")), b"one", "the server closed the connection"),
        ((HEAD, chunk(b"one"), b"0x5\r\nhello\r\n"), b"one", "invalid HTTP response: "),
    ],
    ids=["chunks", "until close", "disconnected", "invalid chunk size"],
)
async def test_a_stream_is_the_same_with_both_clients(
    kind: Callable[[ClusterConfig], HttpClient],
    pieces: tuple[bytes, ...],
    received: bytes,
    message: str | None,
) -> None:
    async with ScriptedServer(says(*pieces), kind=kind) as server:
        parts: list[bytes] = []
        error: TransportError | None = None
        try:
            async with server.stream() as stream:
                async for received_now in stream.pieces:
                    parts += received_now
        except TransportError as raised:
            error = raised
        assert b"".join(parts) == received
        assert (error is None) == (message is None)
        if error is not None and message is not None:
            assert str(error).startswith(message)
            assert (error.sent, error.retryable, error.timed_out) == SENT


@pytest.mark.parametrize("kind", [PooledClient, AiohttpClient])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "POST"])
async def test_a_request_is_never_sent_twice_by_the_http_client(
    method: str, kind: Callable[[ClusterConfig], HttpClient]
) -> None:
    """Only the transport repeats requests, because only it knows whether that is safe."""
    async with ScriptedServer(says(), kind=kind) as server:
        with pytest.raises(TransportError, match="the server closed the connection"):
            await server.http.request(HttpRequest(method=method, target="/"), bearer("token"))
        assert len(server.asked) == 1


@pytest.mark.parametrize("kind", [PooledClient, AiohttpClient])
async def test_a_token_with_a_line_break_is_rejected(kind: Callable[[ClusterConfig], HttpClient]) -> None:
    async with ScriptedServer(says(), kind=kind) as server:
        with pytest.raises(ConfigError, match="contains a line break"):
            await server.http.request(HttpRequest(method="GET", target="/"), bearer("a\nb"))
        assert server.asked == []


async def first_steps(client: Client, api: FakeApi) -> list[tuple[str, str]]:
    """A snapshot and the first change after it."""
    steps: list[tuple[str, str]] = []
    async with aclosing(follow(client, PODS, namespace="default")) as watch:
        async for step in watch:
            if isinstance(step, Snapshot):
                steps += [("LISTED", found["metadata"]["name"]) for found in step.items]
                await api.put("pods", "later")
            elif isinstance(step, Batch) and step.changes:
                return [
                    *steps,
                    *((change.type, change.object["metadata"]["name"]) for change in step.changes),
                ]
    return steps


async def verbs(client: Client, api: FakeApi) -> list[object]:
    """One of each request, with its result or its error."""

    async def attempt(work: Awaitable[Any]) -> object:
        try:
            found = await work
        except KubeError as error:
            return f"{type(error).__name__}: {error.message}"
        return found["metadata"]["name"] if isinstance(found, dict) else found

    api.on_next("POST", "pods", refuse(429, "TooManyRequests", headers={"Retry-After": "0"}))
    api.on_next("DELETE", "pods", api.work_then_hang_up)
    return [
        await attempt(client.create(PODS, pod("a"), "default")),
        await attempt(client.create(PODS, pod("a"), "default")),
        await attempt(client.get(PODS, "a", "default")),
        await attempt(client.get(PODS, "none", "default")),
        await attempt(client.patch(PODS, "a", {"metadata": {"labels": {"x": "y"}}}, "default")),
        len(await client.list(PODS, "default")),
        await first_steps(client, api),
        await attempt(client.delete(PODS, "a", "default")),
        await attempt(client.delete(PODS, "none", "default")),
        sorted(client.transport.counts.items()),
    ]


async def test_every_verb_has_the_same_result_through_a_proxy_and_without_one() -> None:
    results = []
    async with ForwardProxy() as proxy:
        for url in (None, proxy.url):
            async with FakeApi() as api:
                config = msgspec.structs.replace(config_for(api), proxy=url)
                async with Client(config, transport=Transport(config, retry_seconds=5.0)) as client:
                    results.append(await asyncio.wait_for(verbs(client, api), 30))
    direct, proxied = results
    assert direct == proxied
    assert direct[0] == "a"
    assert str(direct[1]).startswith("AlreadyExists: ")
    assert proxy.requests
