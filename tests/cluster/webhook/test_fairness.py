"""One client with complete requests, however large and many, keeps no other out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.webhook.reviews import guide, response, review
from tests.cluster.webhook.serving import HEAD, Serve, Webhook
from vcjob.cluster.fair_share import FairShare, Turns
from vcjob.cluster.http_server import Connection, HttpServer
from vcjob.cluster.webhook import server
from vcjob.cluster.webhook.review import answer

OTHER, THIRD = "127.0.0.9", "127.0.0.8"


class Reviews:
    """Reviews of long bodies that do not end before `go_on` is set; the first byte says whose each is."""

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.begun: list[bytes] = []

    def answer(self, body: bytes, *rest: Any, **options: Any) -> bytes:
        if len(body) <= server.INLINE_BYTES:
            return answer(body, *rest, **options)
        self.begun.append(body[:1])
        assert self.go_on.wait(30)
        return b"{}"


@pytest.fixture
def reviews(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reviews]:
    held = Reviews()
    monkeypatch.setattr(server, "answer", held.answer)
    yield held
    held.go_on.set()


def long_review(size: int, name: bytes = b"x") -> bytes:
    return HEAD % size + name * size


def slots(complete: int) -> int:
    """How many connections or bytes a server has that gives complete requests so many."""
    return -(-complete * 4 // 3)


def counted(webhook: Webhook, size: int) -> Callable[[], bool]:
    return lambda: webhook.server.body_bytes == size


async def test_large_requests_of_one_address_do_not_keep_the_api_server_out(
    serve: Serve, reviews: Reviews
) -> None:
    """Three complete bodies that are being answered were all that the server could hold."""
    webhook = await serve(body_bytes=1024 * 1024)
    await webhook.open(long_review(349_500), source=OTHER)
    await webhook.settle(lambda: len(reviews.begun) == 1)
    for _ in range(2):
        reader = await webhook.open(long_review(349_500), source=OTHER)
        said = await reader.readuntil(b"too many requests of this client at the same time\n")
        assert said.startswith(b"HTTP/1.1 503 ")
    status, said = await webhook.post("/validate", review(guide()))
    assert status == 200
    assert response(said)["allowed"]
    assert webhook.server.body_bytes == 349_500


async def test_many_requests_of_one_address_do_not_use_up_the_connections(
    serve: Serve, reviews: Reviews
) -> None:
    webhook = await serve(connections=slots(8))
    for _ in range(4):
        await webhook.open(long_review(20_000), source=OTHER)
    await webhook.settle(counted(webhook, 80_000))
    for _ in range(8):
        reader = await webhook.open(long_review(20_000), source=OTHER)
        assert b"503" in await reader.readline()
    assert (await webhook.post("/validate", review(guide())))[0] == 200


async def test_many_addresses_with_many_requests_do_not_keep_the_api_server_out(
    serve: Serve, reviews: Reviews
) -> None:
    """Each took a half of what was left, and nothing was left for others: nine pods were enough."""
    webhook = await serve(connections=slots(32))
    answers, count = dict[asyncio.Task[bytes], int](), 0
    for number, requests in enumerate((16, 8, 4, 2, 1)):
        for _ in range(requests):
            count += 1
            reader = await webhook.open(long_review(20_000), source=f"127.0.1.{number + 1}")
            answers[asyncio.create_task(reader.readline())] = number
            await webhook.settle(counted(webhook, 20_000 * count))
    await webhook.settle(lambda: len(reviews.begun) == 2)
    for _ in range(3):
        assert (await webhook.post("/validate", review(guide())))[0] == 200
    await webhook.settle(lambda: any(answer.done() for answer in answers))
    refused = [(number, answer.result()[:12]) for answer, number in answers.items() if answer.done()]
    assert refused == [(0, b"HTTP/1.1 503")], "one that waited, of the address that had most, made room"
    long = asyncio.create_task(webhook.post("/validate", b" " * 20_000))
    await webhook.settle(lambda: long.done() or webhook.server.body_bytes > 20_000 * 30)
    assert not long.done()
    reviews.go_on.set()
    assert (await long)[0] == 200
    assert len(await asyncio.gather(*answers)) == count


@pytest.mark.parametrize("lost", [False, True])
async def test_a_request_that_made_room_is_counted_no_more(
    serve: Serve, reviews: Reviews, lost: bool
) -> None:
    webhook = await serve(connections=slots(8))
    for number in range(4):
        await webhook.open(long_review(20_000), source=OTHER)
        await webhook.settle(counted(webhook, 20_000 * (number + 1)))
    if lost:
        for writer in webhook.kept:
            writer.transport.abort()
        await webhook.settle(lambda: webhook.server.connections == 0)
    for number, bodies in enumerate((5, 6, 6)):  # the third takes the place of one of the four
        await webhook.open(long_review(20_000, b"t"), source=THIRD)
        await webhook.settle(lambda: len(webhook.server.waiting) == number + 3 - (number == 2))
        await webhook.settle(counted(webhook, 20_000 * bodies))
    reader = await webhook.open(long_review(20_000), source=OTHER)
    assert b"503" in await reader.readline()
    reviews.go_on.set()
    await webhook.settle(counted(webhook, 0))
    assert sorted(reviews.begun) == [b"t"] * 3 + [b"x"] * (2 if lost else 3)
    for number in range(4):  # a half is free again
        await webhook.post("/validate", b" " * 20_000)
    assert webhook.server.body_bytes == 0


async def test_bodies_that_wait_make_room_for_those_of_others(serve: Serve, reviews: Reviews) -> None:
    webhook = await serve(body_bytes=slots(1024 * 1024))
    for number, (size, source) in enumerate([(170_000, OTHER)] * 3 + [(170_000, THIRD)]):
        await webhook.open(long_review(size), source=source)
        await webhook.settle(lambda: len(reviews.begun) + len(webhook.server.waiting) == number + 1)
    await webhook.open(long_review(200_000), source="127.0.0.7")
    await webhook.settle(lambda: webhook.server.body_bytes == 3 * 170_000 + 200_000)


async def fill(webhook: Webhook, reviews: Reviews, sizes: Sequence[Sequence[int]]) -> None:
    """One address after the other sends complete requests of these sizes. Those that are not refused wait."""
    answers: list[asyncio.Task[bytes]] = []
    for number, of_address in enumerate(sizes):
        for size in of_address:
            reader = await webhook.open(long_review(size), source=f"127.0.1.{number + 1}")
            answers.append(asyncio.create_task(reader.readline()))
            await webhook.settle(
                lambda: (
                    len(reviews.begun) + len(webhook.server.waiting) + sum(map(asyncio.Task.done, answers))
                    == len(answers)
                )
            )


async def test_bodies_of_many_addresses_leave_memory_for_one_that_is_being_sent(
    serve: Serve, reviews: Reviews
) -> None:
    """Each took a half of what was left, so that no other body could arrive and have others make room for it."""
    webhook = await serve(body_bytes=1024 * 1024)
    await fill(webhook, reviews, [[524_288 >> number] for number in range(5)])
    long = asyncio.create_task(webhook.post("/validate", b" " * 49_000))
    await webhook.settle(
        lambda: long.done() or any(each.address == "127.0.0.1" for each in webhook.server.waiting)
    )
    assert not long.done()
    reviews.go_on.set()
    assert (await long)[0] == 200


async def test_clients_that_connect_again_and_again_do_not_drop_others_from_a_full_server(
    serve: Serve, reviews: Reviews
) -> None:
    """Complete requests left one connection, and each client that came dropped the one before."""
    webhook = await serve(connections=32)
    await fill(webhook, reviews, [[20_000] * number for number in (16, 8, 4, 2, 1)])
    reader = await webhook.open(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
    for _ in range(20):
        await webhook.open(tls=False, source="127.0.2.1")
    await webhook.settle(lambda: webhook.server.connections == 32)
    webhook.kept[-21].write(b"\r\n")
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"


async def test_clients_have_the_threads_in_turn(
    serve: Serve, reviews: Reviews, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_THREADS", 1)  # of two, either may begin first
    webhook = await serve()
    for number, (name, source) in enumerate([(b"a", OTHER)] * 5 + [(b"b", THIRD)] * 2):
        await webhook.open(long_review(20_000, name), source=source)
        await webhook.settle(counted(webhook, 20_000 * (number + 1)))
    await webhook.settle(lambda: len(reviews.begun) == 1)
    reviews.go_on.set()
    await webhook.settle(counted(webhook, 0))
    assert b"".join(reviews.begun) == b"aababaa"


async def test_requests_with_an_empty_body_leave_no_trace(serve: Serve) -> None:
    """Each was counted twice and released once, until all reviews with a body were refused."""
    webhook = await serve(connections=8)
    for _ in range(10):
        assert (await webhook.post("/validate", b""))[0] == 400
    assert (await webhook.post("/validate", review(guide())))[0] == 200


async def test_the_request_of_a_client_that_is_gone_counts_until_it_ends_and_is_not_begun(
    serve: Serve, reviews: Reviews
) -> None:
    """Bodies of clients that disconnected waited for a thread without being counted: memory without a bound."""
    webhook = await serve()
    for number in range(4):
        await webhook.open(long_review(20_000), source=OTHER)
        await webhook.settle(counted(webhook, 20_000 * (number + 1)))
    await webhook.settle(lambda: len(reviews.begun) == 2)
    for writer in webhook.kept:
        writer.transport.abort()
    await webhook.settle(lambda: webhook.server.connections == 0)
    assert webhook.server.body_bytes == 80_000
    reviews.go_on.set()
    await webhook.settle(counted(webhook, 0))
    assert len(reviews.begun) == 2


def test_what_was_given_back_for_an_address_is_its_own() -> None:
    share = FairShare(10)
    assert share.take("a", 5)
    assert share.take("b", 2) and not share.take("b", 1)
    share.give_back("a", 1)
    assert share.take("b", 1, freed=1) and not share.take("b", 2, freed=1)
    assert (share.held("a"), share.held("b")) == (4, 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 40)), max_size=60))
def test_there_is_always_a_share_left_for_an_address_that_has_none(taken: list[tuple[str, int]]) -> None:
    share, held = FairShare(100), dict[str, int]()
    for address, count in taken:
        if share.take(address, count):
            held[address] = held.get(address, 0) + count
            assert held[address] <= 100 - sum(held.values())
    assert share.take("d", 6), "three leave an eighth, of which the fourth may have a half"
    share.give_back("d", 6)
    for address, count in held.items():
        share.give_back(address, count)
    assert share.take("a", 50)
    assert not share.take("a", 1)


async def test_a_turn_that_was_given_to_a_waiter_that_gave_up_is_passed_on() -> None:
    turns, had = Turns(1), list[str]()

    async def have(address: str) -> None:
        async with turns.turn(address):
            had.append(address)
            await asyncio.sleep(0)

    async with turns.turn("a"):
        waiters = [asyncio.create_task(have(address)) for address in "bbc"]
        await asyncio.sleep(0)
        waiters[1].cancel()
    waiters[0].cancel()  # its turn has just come
    await asyncio.gather(*waiters, return_exceptions=True)
    await have("d")
    assert had == ["c", "d"]


async def test_a_waiter_that_gave_up_costs_its_address_no_turn() -> None:
    """Requests that make room for others give up: their address would have waited for one round of all for each."""
    turns, had = Turns(1), list[str]()

    async def have(address: str) -> None:
        async with turns.turn(address):
            had.append(address)

    async with turns.turn("z"):
        waiters = [asyncio.create_task(have(address)) for address in "aaabb"]
        await asyncio.sleep(0)
        for waiter in waiters[:2]:
            waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    assert had == ["a", "b", "b"]


async def test_a_request_whose_turn_comes_while_it_makes_room_is_refused() -> None:
    """It was answered although it counted no more."""
    server = HttpServer(web.Application())
    connection = Connection(server, OTHER, asyncio.Protocol())
    connection.complete_request()
    turn = asyncio.get_running_loop().create_future()
    waits = asyncio.create_task(connection.wait_for(turn))
    await asyncio.sleep(0)
    turn.set_result(None)
    connection.make_room()
    with pytest.raises(web.HTTPServiceUnavailable):
        await waits
    assert not server.waiting
