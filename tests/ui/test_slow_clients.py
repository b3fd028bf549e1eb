"""A thousand clients that are slow on purpose: the server stays responsive and what they hold is bounded."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.ui.conftest import Server
from vcjob.ui.server import MAX_UNPROVEN

CLIENTS = 1000
#: What the server has open in addition: libraries, pipes, the connections of the test itself.
OTHERS = 100


@pytest.fixture
def many_files() -> Iterator[None]:
    """This process may hold a connection for each client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CLIENTS + 500:
        pytest.skip(f"this process may open only {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, CLIENTS + 500), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def attack(port: int, number: int) -> asyncio.StreamWriter:
    """One slow client: it sends half a request, promises a body, or requests much and reads nothing."""
    host = f"Host: 127.0.0.1:{port}\r\n"
    requests = (
        f"GET / HTTP/1.1\r\n{host}X-Slow: ",
        f"POST /api/run HTTP/1.1\r\n{host}Content-Length: 3000000\r\n\r\n",
        f"GET /static/job.js HTTP/1.1\r\n{host}\r\n" * 200,
    )
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=64)
    writer.write(requests[number % len(requests)].encode())
    return writer


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_thousand_slow_clients_leave_the_server_responsive(server: Server, many_files: None) -> None:
    clients = [await attack(server.port, number) for number in range(CLIENTS)]
    for _ in range(5):
        assert "version" in await asyncio.to_thread(server.call, "/api/info")
    held = len(os.listdir(f"/proc/{server.process.pid}/fd"))
    assert held <= MAX_UNPROVEN + OTHERS
    for client in clients:
        with suppress(ConnectionError):
            client.write(b"x")  # each byte comes late
    assert "jobs" in await asyncio.to_thread(server.call, "/api/jobs")
    for client in clients:
        client.close()
