"""Commands in pods over a WebSocket: streams, exit codes, refusals. A server plays the API server's part."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import WSMsgType, web

from vcjob.cluster.client import pod_exec
from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.pod_exec import run_in_pod
from vcjob.errors import BackendError, VcjobError
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig

LARGE = 16 << 20
REFUSAL = 'pods "job-a-0" not available'
Script = Callable[[web.WebSocketResponse, web.Request], Awaitable[None]]
#: A script, the status of a refusal, or the document that answers every request.
Serve = Callable[[Script | int | dict[str, Any]], Awaitable[JobClient]]


def status(**fields: object) -> bytes:
    return b"\3" + json.dumps(fields).encode()


def exited(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    return status(status="Failure", reason="NonZeroExitCode", details={"causes": causes})


@pytest_asyncio.fixture
async def serve() -> AsyncIterator[Serve]:
    runners: list[web.AppRunner] = []
    clients: list[JobClient] = []

    async def start(script: Script | int | dict[str, Any]) -> JobClient:
        async def handle(request: web.Request) -> web.StreamResponse:
            if isinstance(script, int):
                return web.json_response({"kind": "Status", "message": REFUSAL}, status=script)
            if isinstance(script, dict):
                return web.json_response(script)
            socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
            await socket.prepare(request)
            await script(socket, request)
            await socket.close()
            return socket

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        runners.append(runner)
        port = runner.addresses[0][1]
        clients.append(JobClient(ClusterConfig(server=f"http://127.0.0.1:{port}", source=Fixed())))
        return clients[-1]

    yield start
    for client in clients:
        await client.close()
    for runner in runners:
        await runner.cleanup()


@contextmanager
def standard_input(path: str | Path) -> Iterator[None]:
    before, file = os.dup(0), os.open(path, os.O_RDONLY)
    os.dup2(file, 0)
    yield
    os.dup2(before, 0)
    os.close(before)
    os.close(file)


@pytest.fixture
def stdin() -> Iterator[None]:
    """An empty standard input, whatever the tests were started with."""
    with standard_input(os.devnull):
        yield


@pytest.fixture
def large_stdin(tmp_path: Path) -> Iterator[None]:
    """A standard input of LARGE bytes; `os.lseek(0, 0, os.SEEK_CUR)` says how much of it was read."""
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, LARGE)
    with standard_input(path):
        yield


async def execute(jobs: JobClient, *command: str) -> int:
    return await run_in_pod(jobs, "job-a-0", "team", "main", command, tty=False, size=lambda: (80, 24))


async def test_output_goes_to_both_streams_and_the_exit_code_is_the_command_s(
    serve: Serve, stdin: None, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        seen.extend([request.path, request.query["container"], *request.query.getall("command")])
        await socket.send_bytes(b"\1out\n")
        await socket.send_bytes(b"\2err\n")
        await socket.send_bytes(exited(7))

    assert await execute(await serve(script), "echo", "a b", "&c") == 7
    assert capfd.readouterr() == ("out\n", "err\n")
    assert seen == ["/api/v1/namespaces/team/pods/job-a-0/exec", "main", "echo", "a b", "&c"]


async def test_standard_input_is_sent_and_its_end_is_told(serve: Serve) -> None:
    reader, writer = os.pipe()
    before = os.dup(0)
    os.dup2(reader, 0)
    os.write(writer, b"typed")
    os.close(writer)
    received: list[bytes] = []

    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        async for message in socket:
            assert message.type is WSMsgType.BINARY
            received.append(message.data)
            if message.data[0] == 255:
                break
        await socket.send_bytes(status(status="Success"))

    try:
        assert await execute(await serve(script), "cat") == 0
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)
    assert received == [b"\0typed", b"\xff\0"]


async def test_a_large_standard_input_is_read_no_faster_than_it_is_sent(large_stdin: None) -> None:
    sent, most = 0, 0

    class Slow:
        protocol = "v5.channel.k8s.io"

        async def send_bytes(self, data: bytes) -> None:
            nonlocal sent, most
            await asyncio.sleep(0.0005)
            most = max(most, os.lseek(0, 0, os.SEEK_CUR) - sent)
            sent += len(data) - 1

    await pod_exec._send_input(Slow())  # type: ignore[arg-type]
    assert sent == LARGE + 1  # and the two bytes that close it
    assert most <= 16 << 16


async def test_standard_input_is_not_read_after_the_command(serve: Serve, large_stdin: None) -> None:
    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.receive_bytes()
        await socket.send_bytes(status(status="Success"))

    assert await execute(await serve(script), "head", "-c1") == 0
    for thread in threading.enumerate():
        if thread.name == "vcjob-exec-input":
            await asyncio.to_thread(thread.join, 30)
            assert not thread.is_alive()
    assert os.lseek(0, 0, os.SEEK_CUR) < LARGE


async def test_a_command_that_cannot_start_says_why(serve: Serve, stdin: None) -> None:
    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.send_bytes(status(status="Failure", message='exec: "nosuch": not found in $PATH'))

    with pytest.raises(BackendError, match="cannot be run in pod 'job-a-0': exec: \"nosuch\": not found"):
        await execute(await serve(script), "nosuch")


async def test_a_connection_that_ends_before_the_command_is_an_error(serve: Serve, stdin: None) -> None:
    async def script(socket: web.WebSocketResponse, _: web.Request) -> None:
        await socket.send_bytes(b"\1half")

    with pytest.raises(BackendError, match="closed before the command ended"):
        await execute(await serve(script), "sleep", "1")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "the cluster cannot run commands in pods"),
        (403, "you may not run commands in pods in the namespace 'team'"),
        (404, "the cluster could not run commands in pods"),
        (500, "the cluster could not run commands in pods"),
    ],
)
async def test_a_refusal_is_reported_with_the_reason_of_the_server(
    serve: Serve, stdin: None, code: int, message: str
) -> None:
    with pytest.raises(VcjobError) as raised:
        await execute(await serve(code), "true")
    assert raised.value.message.startswith(f"{message}: {REFUSAL}")


async def test_a_server_without_web_sockets_is_reported(serve: Serve, stdin: None) -> None:
    with pytest.raises(BackendError, match="opens no WebSocket: Invalid response status"):
        await execute(await serve({}), "true")
