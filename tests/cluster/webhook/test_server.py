"""The webhook's server, called by an API server and by hostile clients."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
import threading
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
import uvloop

from tests.cluster.webhook.reviews import guide, long_job, response, review
from tests.cluster.webhook.serving import HEAD, Serve, Webhook, webhooks
from vcjob.cluster.webhook import server
from vcjob.cluster.webhook.review import answer
from vcjob.cluster.webhook.server import LARGEST_BODY, serve_webhook
from vcjob.errors import BackendError


async def test_slow_clients_cannot_keep_the_api_server_out(serve: Serve) -> None:
    await _flood_and_review(serve)


def test_the_limits_hold_on_uvloop_too() -> None:
    """The controller's image has it."""

    async def work() -> None:
        async with webhooks() as serve:
            await _flood_and_review(serve)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work())


async def _flood_and_review(serve: Serve) -> None:
    """More slow clients than there are connections, from another address, in every stage of a request."""
    webhook = await serve(connections=40)
    stages: tuple[tuple[bytes, bool], ...] = (
        (b"", False),
        (b"", True),
        (b"POST /validate HTTP/1.1\r\nHos", True),
        (HEAD % 1000 + b"{", True),
    )
    for _ in range(15):
        for data, tls in stages:
            await webhook.open(data, tls=tls, source="127.0.0.9")
        status, said = await webhook.post("/validate", review(guide()))
        assert status == 200
        assert response(said)["allowed"]
    assert webhook.server.connections <= 40


async def test_a_kept_connection_survives_while_another_address_floods(serve: Serve) -> None:
    webhook = await serve(connections=20)
    made: list[str] = []

    async def count(*_: Any) -> None:
        made.append("connection")

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(count)
    connector = aiohttp.TCPConnector(ssl=webhook.trust)
    async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
        for _ in range(3):
            async with session.get(f"{webhook.url}/healthz") as got:
                assert got.status == 200
            for _ in range(30):
                await webhook.open(tls=False, source="127.0.0.9")
    assert len(made) == 1


async def test_bodies_in_memory_are_bounded_and_stalled_ones_make_room(serve: Serve) -> None:
    webhook = await serve(body_bytes=1024 * 1024)
    part = b" " * 300_000

    def holds(bodies: int) -> Callable[[], bool]:
        return lambda: webhook.server.body_bytes >= bodies * len(part)

    for number in range(1, 9):
        await webhook.open(HEAD % 1_000_000 + part, source="127.0.0.9")
        await webhook.settle(holds(min(number, 3)))
        assert webhook.server.body_bytes <= 1024 * 1024
    status, said = await webhook.post("/validate", review(long_job(tasks=300, containers=1)))
    assert status == 200
    assert response(said)["allowed"]


async def test_memory_of_bodies_is_returned_when_they_end(serve: Serve) -> None:
    webhook = await serve()
    await webhook.post("/validate", review(guide()))
    await webhook.open(HEAD % 1_000_000 + b" " * 100_000)
    await webhook.settle(lambda: webhook.server.body_bytes == 100_000)
    webhook.kept.pop().transport.abort()
    await webhook.settle(lambda: webhook.server.body_bytes == 0 and webhook.server.connections == 0)


@pytest.mark.parametrize(
    ("limit", "data", "tls"),
    [
        ("handshake_seconds", b"", False),
        ("head_seconds", b"", True),
        ("head_seconds", b"POST /validate HTTP/1.1\r\nHos", True),
        ("body_seconds", HEAD % 100 + b"{", True),
        ("idle_seconds", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", True),
    ],
    ids=["no handshake", "no head", "half a head", "half a body", "nothing after a response"],
)
async def test_every_stage_of_a_request_has_a_deadline(
    serve: Serve, limit: str, data: bytes, tls: bool
) -> None:
    webhook = await serve(**{limit: 0.2})
    reader = await webhook.open(data, tls=tls)
    async with asyncio.timeout(60):
        try:
            said = await reader.read()
        except (ConnectionError, ssl.SSLError):
            said = b""
    assert not said or said.startswith((b"HTTP/1.1 408", b"HTTP/1.1 200"))
    await webhook.settle(lambda: webhook.server.connections == 0)


async def test_a_review_that_may_take_long_runs_off_the_event_loop(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[int, bool]] = []

    def observed(body: bytes, *rest: Any, **options: Any) -> bytes:
        threads.append((len(body), threading.current_thread() is threading.main_thread()))
        return answer(body, *rest, **options)

    monkeypatch.setattr(server, "answer", observed)
    for tasks in (1, 40, 600):
        assert (await webhook.post("/validate", review(long_job(tasks=tasks, containers=1))))[0] == 200
    assert [in_loop for size, in_loop in threads] == [size <= server.INLINE_BYTES for size, _ in threads]
    assert [in_loop for _, in_loop in threads] == [True, False, False]


async def test_a_review_is_answered_over_tls(webhook: Webhook) -> None:
    status, body = await webhook.post("/mutate", review(guide()))
    assert status == 200
    assert response(body)["allowed"]
    status, body = await webhook.post("/validate", review({}))
    assert status == 200
    assert not response(body)["allowed"]


async def test_a_large_job_does_not_keep_the_loop_waiting(webhook: Webhook) -> None:
    body = review(long_job(tasks=600, containers=1))
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.001)
            beats += 1

    beating = asyncio.create_task(beat())
    status, said = await webhook.post("/validate", body)
    beating.cancel()
    assert status == 200
    assert response(said)["allowed"]
    assert beats > 2


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/mutate", b"nonsense", 400),
        ("/validate", b"\x00" * 100, 400),
        ("/validate", b"[" * 100_000, 400),
        ("/validate", b" " * (LARGEST_BODY + 1), 413),
        ("/elsewhere", b"{}", 404),
        ("/healthz", b"{}", 405),
    ],
    ids=["no JSON", "zeros", "brackets", "too large", "no such path", "no such method"],
)
async def test_a_bad_request_is_refused_in_one_line(
    webhook: Webhook, path: str, body: bytes, status: int
) -> None:
    got, said = await webhook.post(path, body)
    assert got == status
    assert said.count(b"\n") == 1
    assert b"Traceback" not in said
    assert (await webhook.post("/mutate", review(guide())))[0] == 200


async def test_a_fault_of_ours_shows_no_traceback(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> bytes:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(server, "answer", fail)
    status, said = await webhook.post("/mutate", review(guide()))
    assert status == 500
    assert b"secret" not in said
    assert "secret detail" in caplog.text


@pytest.mark.slow
async def test_every_review_is_observed_with_its_status() -> None:
    seen: list[tuple[str, int, bool]] = []

    def observe(purpose: str, status: int, seconds: float) -> None:
        seen.append((purpose, status, seconds >= 0))

    async with webhooks(observe) as serve:
        webhook = await serve()
        await webhook.post("/mutate", review(guide()))
        await webhook.post("/validate", b"nonsense")
        await webhook.post("/validate", b" " * (LARGEST_BODY + 1))
    assert seen == [("mutate", 200, True), ("validate", 400, True), ("validate", 413, True)]


@pytest.mark.slow
async def test_no_bytes_bring_it_down(webhook: Webhook) -> None:
    seed = int.from_bytes(os.urandom(4))
    chance = random.Random(seed)
    whole = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    body = review(guide())
    whole += b"Content-Length: %d\r\n\r\n" % len(body) + body
    attacks = []
    for _ in range(60):
        broken = bytearray(whole)
        for _ in range(chance.randrange(1, 12)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        attacks.append(bytes(broken[: chance.randrange(1, len(broken))]))
    for said in await asyncio.gather(*map(webhook.raw, attacks)):
        assert b"Traceback" not in said, f"seed {seed}"
    status, said = await webhook.post("/mutate", review(guide()))
    assert status == 200
    assert response(said)["allowed"]


async def test_a_port_in_use_is_reported(webhook: Webhook) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(BackendError, match=f"cannot listen on 127.0.0.1:{webhook.port}"):
        await serve_webhook(context, host="127.0.0.1", port=webhook.port)
