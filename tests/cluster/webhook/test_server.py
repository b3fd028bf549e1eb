"""The webhook's server, spoken to as an API server and as an enemy would."""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from tests.cluster.webhook.reviews import guide, long_job, response, review
from vcjob.cluster.webhook import server
from vcjob.cluster.webhook.certificates import issue, make_authority
from vcjob.cluster.webhook.server import LARGEST_BODY, serve_webhook
from vcjob.errors import BackendError
from vcjob.kube.config.tls import load_pair


class Webhook:
    def __init__(self, port: int, trust: ssl.SSLContext) -> None:
        self.port = port
        self.url = f"https://127.0.0.1:{port}"
        self.trust = trust

    async def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self.url + path, data=body, ssl=self.trust, headers={"Content-Type": "application/json"}
            ) as got,
        ):
            return got.status, await got.read()

    async def raw(self, data: bytes) -> bytes:
        """What comes back for bytes that may be no HTTP at all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)
        try:
            writer.write(data)
            await writer.drain()
            async with asyncio.timeout(1):
                return await reader.read(65536)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            return b""
        finally:
            writer.transport.abort()


@pytest.fixture
async def webhook() -> AsyncIterator[Webhook]:
    now = datetime.now(UTC)
    authority = make_authority(now)
    pair = issue(authority, ["127.0.0.1"], now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_pair(context, pair.certificate, pair.key)
    runner = await serve_webhook(context, host="127.0.0.1", port=0)
    port: int = runner.addresses[0][1]
    yield Webhook(port, ssl.create_default_context(cadata=authority.certificate.decode()))
    await runner.cleanup()


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


async def test_a_sender_that_never_finishes_is_let_go(
    webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_READ_SECONDS", 0.2)
    said = await webhook.raw(b"POST /mutate HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert said.startswith(b"HTTP/1.1 408") or said == b""
    assert (await webhook.post("/mutate", review(guide())))[0] == 200


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


async def test_a_taken_port_is_told_in_a_sentence(webhook: Webhook) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(BackendError, match=f"cannot listen on 127.0.0.1:{webhook.port}"):
        await serve_webhook(context, host="127.0.0.1", port=webhook.port)
