"""Streams to many clients, to slow ones and to those that leave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from tests.ui.test_security import Page, page  # noqa: F401 - a fixture
from vcjob.ui import server, streams
from vcjob.ui.streams import Produced, Producer, Streams

BIG = "x" * 200_000


class Counting:
    """A producer without end that says how far it is, and whether it has ended."""

    def __init__(self) -> None:
        self.produced = 0
        self.ended = threading.Event()

    def __call__(self) -> Iterator[Produced]:
        try:
            while True:
                self.produced += 1
                yield "message", {"number": self.produced, "text": BIG}
        finally:
            self.ended.set()


@asynccontextmanager
async def _serving(served: Streams, producer: Producer) -> AsyncIterator[URL]:
    """The address of a server whose only stream is what the producer yields."""
    app = web.Application()

    async def stream(request: web.Request) -> web.StreamResponse:
        return await served.serve(request, producer)

    app.router.add_get("/", stream)
    async with TestServer(app, handler_cancellation=True) as running:
        yield running.make_url("/")
        served.close()


@pytest_asyncio.fixture
async def counting() -> AsyncIterator[tuple[Counting, str]]:
    producer = Counting()
    async with _serving(Streams(), producer) as url:
        yield producer, str(url)
    await asyncio.to_thread(producer.ended.wait, 30)


async def test_a_slow_client_gets_every_message_once_and_holds_up_only_its_own_producer(
    counting: tuple[Counting, str],
) -> None:
    producer, url = counting
    async with aiohttp.ClientSession(read_bufsize=2**18) as session, session.get(url) as response:
        for number in range(1, 101):
            if number == 2:
                await asyncio.sleep(0.7)  # longer than a producer waits at a time
            message = await response.content.readuntil(b"\n\n")
            assert json.loads(message.partition(b"data: ")[2])["number"] == number
            assert producer.produced - number < 100  # bounded by the queue and the buffers of the sockets


async def test_a_producer_ends_when_its_client_leaves(counting: tuple[Counting, str]) -> None:
    producer, url = counting
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        await response.content.readline()
    assert await asyncio.to_thread(producer.ended.wait, 30)


async def test_a_client_that_takes_nothing_loses_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection stays open, and heartbeats do not reach it either."""
    monkeypatch.setattr(streams, "WRITE_SECONDS", 0.3)
    producer = Counting()
    async with _serving(Streams(), producer) as url:
        _, writer = await asyncio.open_connection(url.host, url.port, limit=64)
        writer.write(f"GET / HTTP/1.1\r\nHost: {url.host}\r\n\r\n".encode())
        assert await asyncio.to_thread(producer.ended.wait, 30)
        writer.close()


async def test_a_stream_that_has_lasted_long_enough_tells_its_page_to_open_another() -> None:
    """Also while messages arrive without a pause; a header asks proxies to pass them on at once."""

    def busy() -> Iterator[Produced]:
        while True:
            yield "message", 1

    def idle() -> Iterator[Produced]:
        while True:
            yield 0.05

    for producer in (busy, idle):
        async with (
            _serving(Streams(seconds=0.3), producer) as url,
            aiohttp.ClientSession() as session,
            session.get(url) as response,
        ):
            assert response.headers["X-Accel-Buffering"] == "no"
            assert (await response.text()).endswith("event: again\ndata: {}\n\n")


async def test_a_producer_that_fails_ends_its_own_stream_and_frees_its_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> Iterator[Produced]:
        yield "message", 1
        raise ValueError("unexpected")

    async with _serving(Streams(limit=1), fail) as url, aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.get(url) as response:
                assert response.status == 200
                text = await response.text()
                assert text.startswith("event: message\n") and "event: gone\n" in text
                assert "unexpected" not in text
    assert caplog.text.count("ValueError: unexpected") == 3


async def _open(session: aiohttp.ClientSession, url: str) -> aiohttp.ClientResponse:
    """A stream; the places of clients that have just left become free one by one, long before a heartbeat."""
    async with asyncio.timeout(streams.HEARTBEAT_SECONDS / 2):
        while (response := await session.get(url)).status == 503:
            response.close()
            await asyncio.sleep(0.01)
    return response


async def test_an_idle_stream_ends_when_its_client_leaves(page: Page) -> None:  # noqa: F811
    """At once, not at the next heartbeat: each holds a thread."""
    headers = {"Authorization": f"Bearer {page.token}"}
    for _ in range(3):
        async with aiohttp.ClientSession(headers=headers) as session:
            opened = [await _open(session, f"{page.origin}/api/stream") for _ in range(streams.MAX_STREAMS)]
            for response in opened:
                await response.content.readline()


async def test_one_stream_too_many_is_refused_and_others_are_served(page: Page) -> None:  # noqa: F811
    headers = {"Authorization": f"Bearer {page.token}"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        opened = [await session.get(f"{page.origin}/api/stream") for _ in range(streams.MAX_STREAMS + 20)]
        assert [response.status for response in opened].count(503) == 20
        assert (await page.get("/api/info"))[0] == 200


async def test_a_client_that_comes_back_gets_the_whole_state_again(page: Page) -> None:  # noqa: F811
    """Resume without ids: the first message is everything, so nothing that was missed matters."""
    headers = {"Authorization": f"Bearer {page.token}"}
    for _ in range(2):
        async with aiohttp.ClientSession(headers=headers) as session:
            async with session.get(f"{page.origin}/api/stream") as response:
                assert await response.content.readline() == b"event: jobs\n"
                assert await response.content.readline() == b"data: []\n"


async def test_a_connection_without_the_token_is_closed_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
    page: Page,  # noqa: F811
) -> None:
    """One that sends nothing, half a request, or only requests that need no token."""
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
    port = int(page.origin.rpartition(":")[2])
    sent = (
        b"",
        b"GET / HTTP/1.1\r\nHost: ",
        f"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode(),
    )

    async def answer(start: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(start)
        async with asyncio.timeout(30):
            received = await reader.read()
        writer.close()
        return received

    answers = await asyncio.gather(*map(answer, sent))
    assert answers[2].startswith(b"HTTP/1.1 404")
    assert (await page.get("/api/info"))[0] == 200
