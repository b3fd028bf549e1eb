"""Streams on connections of our own; their failures are in test_stream_failures.py."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import pytest

from tests.kube.scripted_server import (
    HEAD,
    LAST,
    WATCH,
    ScriptedServer,
    chunk,
    failure,
    on_loop,
    read_all,
    says,
    waits,
)
from vcjob.kube.api.client import Client
from vcjob.kube.config.auth import bearer
from vcjob.kube.errors import TooManyRequests
from vcjob.kube.http.base import READ_BUFFER
from vcjob.kube.http.stream import StreamConnection


async def test_a_request_has_its_path_host_and_headers() -> None:
    async with ScriptedServer(says(HEAD + LAST)) as server, server.stream() as stream:
        assert await read_all(stream) == b""
    lines = server.asked[0].decode().split("\r\n")
    assert lines[:2] == ["GET /api?watch=true HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    assert {"Authorization: Bearer token", "Accept: application/json", "Accept-Encoding: identity"} < set(
        lines
    )


async def test_events_are_delivered_as_they_are_received(secure: bool = False) -> None:
    go_on = asyncio.Event()

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        for number in range(3):
            await go_on.wait()
            go_on.clear()
            writer.write(chunk(b"event %d\n" % number))
        writer.write(LAST)

    async with ScriptedServer(handler, secure=secure) as server, server.stream() as stream:
        assert (stream.status, stream.retry_after) == (200, None)
        for number in range(3):
            go_on.set()
            assert await anext(stream.pieces) == [b"event %d\n" % number]
        assert await read_all(stream) == b""


async def test_a_late_reader_receives_everything_in_one_piece() -> None:
    events = [b"event %d\n" % number for number in range(100)]
    written = asyncio.Event()

    async def then_waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        written.set()
        await waits(reader, writer)

    async with (
        ScriptedServer(says(HEAD, *map(chunk, events), then=then_waits)) as server,
        server.stream() as stream,
    ):
        await asyncio.wait_for(written.wait(), 60)
        await asyncio.sleep(0.1)  # the loop reads what has arrived before it comes back here
        assert await anext(stream.pieces) == events


@pytest.mark.parametrize("cut", [1, 3, 50])
@pytest.mark.parametrize("head", ["chunks", "length", "until close"])
async def test_a_body_of_any_framing_is_read_from_any_pieces(head: str, cut: int) -> None:
    body = b"".join(b"event %d\n" % number for number in range(20))
    text = {
        "chunks": HEAD + chunk(body[:70]) + chunk(body[70:]) + LAST,
        "length": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body,
        "until close": b"HTTP/1.1 200 OK\r\n\r\n" + body,
    }[head]
    pieces = [text[at : at + cut] for at in range(0, len(text), cut)]
    async with ScriptedServer(says(*pieces)) as server, server.stream() as stream:
        assert await read_all(stream) == body


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy",
        b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbusy\r\n0\r\n\r\n",
        b"HTTP/1.0 429 Too Many\r\nRetry-After: 7\r\n\r\nbusy",
    ],
)
async def test_a_refusal_has_its_status_and_body(head: bytes) -> None:
    async with ScriptedServer(says(head)) as server, server.stream() as stream:
        assert (stream.status, stream.retry_after) == (429, "7")
        assert await read_all(stream) == b"busy"


async def test_a_refused_stream_raises_the_servers_message() -> None:
    body = b'{"kind":"Status","reason":"TooManyRequests","message":"too many logs"}'
    head = b"HTTP/1.1 429 No\r\nRetry-After: 7\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with ScriptedServer(says(head + body)) as server, Client(server.config) as client:
        with pytest.raises(TooManyRequests, match="too many logs") as caught:
            async with aclosing(client.logs("a", "default")) as lines:
                await anext(lines)
    assert caught.value.retry_after == 7


async def test_a_reader_that_stops_early_leaves_no_connection(secure: bool = False) -> None:
    async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(chunk(b"x" * 10_000))
            await writer.drain()
            await asyncio.sleep(0)

    async with ScriptedServer(says(HEAD, then=floods), secure=secure) as server:
        async with server.stream() as stream:
            await anext(stream.pieces)
            assert server.open == 1
        await asyncio.wait_for(server.ended.wait(), 60)
        assert server.open == 0


@pytest.mark.parametrize("head", [b"", HEAD], ids=["before the head", "in the body"])
async def test_a_cancelled_reader_leaves_no_connection(head: bytes) -> None:
    async with ScriptedServer(says(head, then=waits)) as server:

        async def read() -> None:
            async with server.stream() as stream:
                await read_all(stream)

        reading = asyncio.create_task(read())
        while not server.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.ended.wait(), 60)


async def test_an_ended_stream_leaves_no_connection(secure: bool = False) -> None:
    async with ScriptedServer(says(HEAD + chunk(b"all") + LAST, then=waits), secure=secure) as server:
        async with server.stream() as stream:
            assert await read_all(stream) == b"all"
            kept = weakref.ref(stream.pieces)
        del stream
        await asyncio.wait_for(server.ended.wait(), 60)
        await asyncio.sleep(0.02)
        gc.collect()
        assert kept() is None, "nor a timer that keeps its memory"


async def test_closing_the_client_ends_its_streams() -> None:
    async with ScriptedServer(says(HEAD, then=waits)) as server:
        reading = asyncio.create_task(failure(server))
        while not server.asked:
            await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        await server.http.close()
        await asyncio.wait_for(reading, 60)
        await asyncio.wait_for(server.ended.wait(), 60)


async def test_a_slow_reader_applies_back_pressure(secure: bool = False) -> None:
    size, sent = 2**20, 0

    async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        for _number in range(24):
            writer.write(chunk(b"x" * size))
            await writer.drain()
            sent += size
        writer.write(LAST)

    async with ScriptedServer(says(HEAD, then=floods), secure=secure) as server, server.stream(0.5) as stream:
        await asyncio.sleep(0.8)  # longer than the silence that is suffered: it is ours, not the server's
        assert sent < 20 * size, "the rest waits at the server"
        reads = [sum(map(len, pieces)) async for pieces in stream.pieces]
    assert sum(reads) == 24 * size
    assert max(reads) < 4 * READ_BUFFER


async def test_reading_is_paused_only_while_the_reader_is_busy() -> None:
    orders: list[str] = []

    class Transport(asyncio.Transport):
        def is_closing(self) -> bool:
            return False

        def pause_reading(self) -> None:
            orders.append("pause")

        def resume_reading(self) -> None:
            orders.append("resume")

    buffer = memoryview(bytearray(READ_BUFFER))
    stream = StreamConnection(buffer, None)

    def receive(data: bytes) -> None:
        buffer[: len(data)] = data
        stream.buffer_updated(len(data))

    with socket.socket() as made:
        stream.connection_made(Transport({"socket": made}))
    receive(HEAD)
    piece = chunk(b"x" * (READ_BUFFER * 2 // 3))
    for _ in range(3):
        reading = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        receive(piece)
        await reading
    assert orders == []
    for _ in range(3):  # data that the transport had already read when it was paused is kept
        receive(piece)
    assert orders == ["pause"]
    assert sum(map(len, await anext(stream))) == READ_BUFFER * 2 // 3 * 3
    assert orders == ["pause", "resume"]


async def test_a_new_credential_is_used_from_the_next_stream_on() -> None:
    async with ScriptedServer(says(HEAD + LAST)) as server:
        for token in ("old", "new"):
            async with server.http.stream(WATCH, bearer(token), 5.0) as stream:
                await read_all(stream)
    assert [b"Bearer old" in server.asked[0], b"Bearer new" in server.asked[1]] == [True, True]


@pytest.mark.parametrize(("loop", "secure"), [("asyncio", True), ("uvloop", False), ("uvloop", True)])
@pytest.mark.parametrize(
    "behaviour",
    [
        test_events_are_delivered_as_they_are_received,
        test_a_reader_that_stops_early_leaves_no_connection,
        test_an_ended_stream_leaves_no_connection,
        test_a_slow_reader_applies_back_pressure,
    ],
    ids=lambda behaviour: behaviour.__name__.removeprefix("test_"),
)
def test_the_behaviour_is_the_same_with_tls_and_on_uvloop(
    behaviour: Callable[..., Coroutine[Any, Any, None]], loop: str, secure: bool
) -> None:
    on_loop(loop, behaviour(secure=secure))
