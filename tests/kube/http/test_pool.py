"""The connection pool: responses of every framing, reuse of connections, failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.scripted_server import ScriptedServer, on_loop
from vcjob.kube.config.auth import bearer
from vcjob.kube.http.base import HttpRequest, Response, TransportError
from vcjob.kube.http.endpoint import Endpoint
from vcjob.kube.http.pool import ConnectionPool

PLAIN = b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{"a"'


@asynccontextmanager
async def server(
    *answers: bytes, cut: int = 0, then_close: bool = False
) -> AsyncIterator[tuple[ConnectionPool, list[bytes]]]:
    """Gives one answer to each request, in pieces of `cut` bytes; notes the requests and the connections."""
    asked: list[bytes] = []
    left = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(b"(connected)")
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (
                        int(line.split(b":")[1])
                        for line in head.split(b"\r\n")
                        if line.startswith(b"Content-Length")
                    ),
                    0,
                )
                asked.append(head + await reader.readexactly(length))
                answer = left.pop(0)
                for start in range(0, len(answer), cut or len(answer)):
                    writer.write(answer[start : start + (cut or len(answer))])
                    await writer.drain()
                    await asyncio.sleep(0)
                if then_close:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    pool = ConnectionPool(Endpoint(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/prefix"))
    try:
        yield pool, asked
    finally:
        pool.close()
        listening.close()


async def ask(pool: ConnectionPool, body: bytes | None = None, seconds: float = 60.0) -> Response:
    request = HttpRequest(method="POST" if body else "GET", target="/api?a=b", body=body, timeout=seconds)
    return await pool.request(request, b"Accept: application/json\r\n")


async def test_a_request_has_its_path_host_headers_and_body() -> None:
    async with server(PLAIN) as (pool, asked):
        await ask(pool, b"{}")
    lines = asked[1].split(b"\r\n")
    assert lines[0] == b"POST /prefix/api?a=b HTTP/1.1"
    assert lines[1].startswith(b"Host: 127.0.0.1:")
    assert lines[2:] == [b"Accept: application/json", b"Content-Length: 2", b"", b"{}"]


FORMS = {
    "length": b'HTTP/1.1 201 Created\r\ncontent-length: 5\r\nRetry-After: 3\r\nWarning: 299 - "one"\r\nWarning: 299 - "two"\r\n\r\nhello',
    "chunks": b'HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\nRetry-After: 3\r\nWarning: 299 - "one"\r\nWarning: 299 - "two"\r\n\r\n'
    b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
    "after a word in between": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 5\r\nRetry-After: 3\r\n"
    b'Warning: 299 - "one"\r\nWarning: 299 - "two"\r\n\r\nhello',
}


@pytest.mark.parametrize("cut", [0, 1, 3, 50])
@pytest.mark.parametrize("form", FORMS)
async def test_a_response_of_any_framing_is_read_from_any_pieces(form: str, cut: int) -> None:
    async with server(FORMS[form], FORMS[form], cut=cut) as (pool, asked):
        for _ in range(2):
            answer = await ask(pool)
            assert answer == Response(201, "3", b"hello", ['299 - "one"', '299 - "two"'])
        assert asked.count(b"(connected)") == 1, "the connection is kept"


async def test_a_response_without_a_length_ends_with_the_connection() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n\r\nall of it", then_close=True) as (pool, _):
        assert (await ask(pool)).body == b"all of it"


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 204 No Content\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]
)
async def test_a_response_may_be_empty(head: bytes) -> None:
    async with server(head) as (pool, _):
        assert (await ask(pool)).body == b""


async def test_a_connection_with_connection_close_is_not_reused() -> None:
    last = PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with server(last, PLAIN) as (pool, asked):
        await ask(pool)
        await ask(pool)
    assert asked.count(b"(connected)") == 2


async def test_concurrent_requests_use_separate_connections_that_are_reused_later() -> None:
    async with server(*[PLAIN] * 20) as (pool, asked):
        await asyncio.gather(*(ask(pool) for _ in range(5)))
        for _ in range(15):
            await ask(pool)
    assert asked.count(b"(connected)") == 5


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", b"HTTP"],
)  # fmt: skip
async def test_an_incomplete_response_is_an_error(answer: bytes) -> None:
    async with server(answer, then_close=True) as (pool, _):
        with pytest.raises(TransportError) as caught:
            await ask(pool)
    assert caught.value.sent and caught.value.retryable and not caught.value.timed_out


@given(st.binary(min_size=1, max_size=200))
async def test_random_bytes_are_a_transport_error(answer: bytes) -> None:
    async with server(answer, then_close=True) as (pool, _):
        with pytest.raises(TransportError):
            await ask(pool)


async def test_a_timeout_closes_the_connection() -> None:
    async with server(b"HTTP/1.1 200 OK\r\n", PLAIN) as (pool, asked):
        with pytest.raises(TransportError, match=r"no response in 0.05 s") as caught:
            await ask(pool, seconds=0.05)
        assert caught.value.timed_out and caught.value.sent
        assert (await ask(pool)).status == 200
    assert asked.count(b"(connected)") == 2


async def test_a_refused_connection_has_not_sent_the_request() -> None:
    with pytest.raises(TransportError) as caught:
        await ask(ConnectionPool(Endpoint("http://127.0.0.1:1")))
    assert not caught.value.sent and caught.value.retryable


async def test_the_response_to_a_cancelled_request_is_not_read_by_the_next_one() -> None:
    async with server(PLAIN[:-1], PLAIN.replace(b"200 OK", b"202 Accepted")) as (pool, asked):
        first = asyncio.create_task(ask(pool))
        while len(asked) < 2:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert (await ask(pool)).status == 202
    assert asked.count(b"(connected)") == 2


async def fetch_many_large_bodies(secure: bool) -> None:
    async def sends_its_number(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = int(scripted.asked[-1].split(b" ")[1].removeprefix(b"/"))
        body = b"%08d" % number * 50_000
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 30_000):
            writer.write(body[start : start + 30_000])
            await writer.drain()
            await asyncio.sleep(0)

    async with ScriptedServer(sends_its_number, secure=secure) as scripted:
        requests = [HttpRequest(method="GET", target=f"/{number}") for number in range(8)]
        found = await asyncio.gather(*(scripted.http.request(each, bearer("token")) for each in requests))
    assert [response.body for response in found] == [b"%08d" % number * 50_000 for number in range(8)]


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_concurrent_responses_that_share_a_read_buffer_do_not_mix(loop: str, secure: bool) -> None:
    on_loop(loop, fetch_many_large_bodies(secure))
