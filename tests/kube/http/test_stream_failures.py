"""How streams fail, and how the failure is reported."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.kube.certificates import Authority
from tests.kube.scripted_server import (
    HEAD,
    LAST,
    Handler,
    ScriptedServer,
    chunk,
    failure,
    on_loop,
    read_all,
    resets,
    says,
    waits,
)
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.http.aiohttp_client import AiohttpClient
from vcjob.kube.http.pooled import PooledClient


async def test_an_idle_stream_times_out(secure: bool = False) -> None:
    loop = asyncio.get_running_loop()
    for pieces in ((), (HEAD[:9],), (HEAD, chunk(b"one"), b"9\r\nhal")):
        async with ScriptedServer(says(*pieces, then=waits), secure=secure) as server:
            began = loop.time()
            came, error = await failure(server, 0.15)
            assert loop.time() - began >= 0.14
            assert str(error) == "no response in 0.15 s"
            assert (error.sent, error.retryable, error.timed_out) == (True, True, True)
            assert came == (b"onehal" if pieces[1:] else b"")
            await asyncio.wait_for(server.ended.wait(), 60)


async def test_a_stream_with_occasional_data_does_not_time_out() -> None:
    async def speaks(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _number in range(8):
            writer.write(chunk(b"."))
            await asyncio.sleep(0.12)
        writer.write(LAST)

    async with ScriptedServer(says(HEAD, then=speaks)) as server, server.stream(0.8) as stream:
        assert await read_all(stream) == b"." * 8


async def test_a_log_stream_never_times_out() -> None:
    async def pauses(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.2)
        writer.write(chunk(b"at last") + LAST)

    async with ScriptedServer(says(HEAD, then=pauses)) as server, server.stream(None) as stream:
        assert await read_all(stream) == b"at last"


async def test_an_incomplete_response_is_an_error_after_its_data_was_delivered(secure: bool = False) -> None:
    with_length = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
    for text, came in (
        (b"", b""),
        (HEAD[:-2], b""),
        (HEAD, b""),
        (HEAD + chunk(b"one"), b"one"),
        (HEAD + chunk(b"one") + b"9\r\nhalf", b"onehalf"),
        (HEAD + chunk(b"one") + b"0\r\n", b"one"),
        (with_length + b"half", b"half"),
    ):
        async with ScriptedServer(says(text), secure=secure) as server:
            found, error = await failure(server)
        assert (found, str(error)) == (came, "the server closed the connection")
        assert (error.sent, error.retryable, error.timed_out) == (True, True, False)


async def test_a_connection_reset_is_named() -> None:
    async with ScriptedServer(says(HEAD, then=resets)) as server:
        _, error = await failure(server)
    assert "reset" in str(error)


async def test_an_invalid_response_is_reported() -> None:
    for text in (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", HEAD + chunk(b"one") + b"no size\r\n"):
        async with ScriptedServer(says(text, then=waits)) as server:
            _, error = await failure(server)
            assert str(error).startswith("invalid HTTP response: ")
            await asyncio.wait_for(server.ended.wait(), 60)


async def test_a_certificate_of_another_ca_is_rejected_with_the_reason() -> None:
    async with ScriptedServer(waits, secure=True) as server:
        server.config.ca = Authority("other").pem
        _, error = await failure(server)
    assert str(error).startswith("server certificate not trusted: ")
    assert (error.sent, error.retryable, error.timed_out) == (False, False, False)


def refused(config: ClusterConfig) -> None:
    config.server = "http://127.0.0.1:1"


def unknown(config: ClusterConfig) -> None:
    config.server = "http://nowhere.invalid"


def untrusted(config: ClusterConfig) -> None:
    config.ca = Authority("other").pem


def no_tls(config: ClusterConfig) -> None:
    config.server = config.server.replace("http:", "https:")


@pytest.mark.parametrize(
    ("spoil", "handler", "secure"),
    [
        (refused, waits, False),
        (unknown, waits, False),
        (untrusted, waits, True),
        (no_tls, says(b"what?\r\n\r\n"), False),
        (None, waits, False),
        (None, says(HEAD, then=waits), False),
        (None, says(), False),
        (None, says(HEAD + b"9\r\nhalf"), False),
        (None, says(HEAD, then=resets), False),
    ],
    ids="refused unknown untrusted no-tls no-head silence no-answer half reset".split(),
)
async def test_a_failure_has_the_same_flags_with_both_http_clients(
    spoil: Callable[[ClusterConfig], None] | None,
    handler: Handler,
    secure: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that it does not matter whether there is a proxy."""

    def no_such_name(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    errors = []
    for kind in (AiohttpClient, PooledClient):
        async with ScriptedServer(handler, secure=secure, hasty=spoil is no_tls, kind=kind) as server:
            if spoil is not None:
                spoil(server.config)
                server.http = kind(server.config)
            with monkeypatch.context() as patch:
                if spoil is unknown:
                    patch.setattr(socket, "getaddrinfo", no_such_name)
                errors.append((await failure(server, 0.2))[1])
    library, ours = errors
    assert (ours.sent, ours.retryable, ours.timed_out) == (library.sent, library.retryable, library.timed_out)
    if library.timed_out or not library.sent:
        assert str(ours).split(":")[0] == str(library).split(":")[0]


async def test_a_server_without_a_tls_handshake_has_not_received_the_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vcjob.kube.http.endpoint.CONNECT_TIMEOUT", 0.1)
    async with ScriptedServer(waits, hasty=True) as server:
        no_tls(server.config)
        server.http = PooledClient(server.config)
        _, error = await failure(server)
    assert str(error) == "no response in 0.1 s"
    assert (error.sent, error.retryable, error.timed_out) == (False, True, True)


@pytest.mark.parametrize(("loop", "secure"), [("asyncio", True), ("uvloop", False), ("uvloop", True)])
@pytest.mark.parametrize(
    "behaviour",
    [
        test_an_idle_stream_times_out,
        test_an_incomplete_response_is_an_error_after_its_data_was_delivered,
    ],
    ids=lambda behaviour: behaviour.__name__.removeprefix("test_"),
)
def test_the_behaviour_is_the_same_with_tls_and_on_uvloop(
    behaviour: Callable[..., Coroutine[Any, Any, None]], loop: str, secure: bool
) -> None:
    on_loop(loop, behaviour(secure=secure))


def test_a_certificate_of_another_ca_is_rejected_on_uvloop() -> None:
    on_loop("uvloop", test_a_certificate_of_another_ca_is_rejected_with_the_reason())
