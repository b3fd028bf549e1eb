"""Running a command in a container of a cluster, as `kubectl exec` does.

The API server forwards the streams over one WebSocket, each message with its channel in the first byte. `v5` of the
protocol can close standard input; with `v4` (Kubernetes before 1.30) a command that reads to the end of its input
does not see it. The SDK calls this for `vcjob exec`; it knows nothing of terminals except their size.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient
from vcjob.errors import BackendError
from vcjob.kube.http.websocket import open_websocket

_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_PIECE = 1 << 16
#: Pieces of input that were read and not sent.
_MOST_WAITING = 16
_MOST_OUTPUT = 4 << 20


async def run_in_pod(
    jobs: JobClient,
    pod: str,
    namespace: str,
    container: str,
    command: Sequence[str],
    *,
    tty: bool,
    size: Callable[[], tuple[int, int]],
) -> int:
    """The exit code of the command; its streams are this process's own. `size`: columns and lines of the terminal."""
    options = {"container": container, "stdin": "true", "stdout": "true", "tty": str(tty).lower()}
    if not tty:
        options["stderr"] = "true"  # a terminal is one stream
    words = urlencode([*options.items(), *(("command", word) for word in command)], quote_via=quote)
    target = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{words}"
    with translate_api_errors(jobs.config, "run commands in pods", namespace):
        async with open_websocket(jobs.config, target, _PROTOCOLS) as socket:
            tasks = [asyncio.create_task(_send_input(socket))]
            if tty:
                tasks.append(asyncio.create_task(_send_size(socket, size)))
            try:
                return await _receive(socket, pod, _pass_on)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)


async def capture_in_pod(
    jobs: JobClient, pod: str, namespace: str, container: str, command: Sequence[str]
) -> tuple[int, bytes]:
    """The exit code of a command that reads nothing, and its output; of both streams together, at most 4 MiB."""
    options = {"container": container, "stdout": "true", "stderr": "true"}
    words = urlencode([*options.items(), *(("command", word) for word in command)], quote_via=quote)
    target = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{words}"
    output = bytearray()

    async def keep(_: int, data: bytes) -> None:
        output.extend(data[: _MOST_OUTPUT - len(output)])

    with translate_api_errors(jobs.config, "run commands in pods", namespace):
        async with open_websocket(jobs.config, target, _PROTOCOLS) as socket:
            return await _receive(socket, pod, keep), bytes(output)


async def _receive(
    socket: aiohttp.ClientWebSocketResponse, pod: str, write: Callable[[int, bytes], Awaitable[None]]
) -> int:
    async for message in socket:
        if message.type not in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT):
            continue
        data = message.data.encode() if isinstance(message.data, str) else message.data
        if data[:1] in (b"\1", b"\2"):
            await write(data[0], data[1:])
        elif data[:1] == b"\3":
            return _exit_code(data[1:], pod)
    raise BackendError(f"the connection to pod {pod!r} was closed before the command ended")


async def _pass_on(descriptor: int, data: bytes) -> None:
    await asyncio.to_thread(_write, descriptor, data)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _exit_code(document: bytes, pod: str) -> int:
    """The Status object at the end: success, an exit code, or why the command did not start."""
    try:
        status = msgspec.json.decode(document)
        if status.get("status") == "Success":
            return 0
        for cause in (status.get("details") or {}).get("causes") or []:
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
        message = str(status.get("message") or "no reason given")
    except (msgspec.DecodeError, ValueError, AttributeError):
        message = document.decode(errors="replace")
    raise BackendError(f"the command cannot be run in pod {pod!r}: {message}")


async def _send_input(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Send standard input; at most `_MOST_WAITING` pieces of it are in memory, and none is read after the command."""
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    room = threading.Semaphore(_MOST_WAITING)
    ended = threading.Event()

    def read() -> None:  # a thread: a terminal or a file cannot be waited for in the same way on every system
        data = b"unread"
        while data:
            room.acquire()
            if ended.is_set():
                return
            try:
                data = os.read(0, _PIECE)
            except OSError:
                data = b""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, data)
            except RuntimeError:
                return  # the loop is closed: the command ended while this thread was reading

    threading.Thread(target=read, name="vcjob-exec-input", daemon=True).start()
    try:
        while data := await queue.get():
            await socket.send_bytes(bytes([_STDIN]) + data)
            room.release()
        if socket.protocol == _PROTOCOLS[0]:
            await socket.send_bytes(bytes([_CLOSE, _STDIN]))
    finally:
        ended.set()
        room.release()


async def _send_size(socket: aiohttp.ClientWebSocketResponse, size: Callable[[], tuple[int, int]]) -> None:
    known = None
    while True:
        if (now := size()) != known:
            known = now
            await socket.send_bytes(
                bytes([_RESIZE]) + msgspec.json.encode({"Width": now[0], "Height": now[1]})
            )
        await asyncio.sleep(0.25)
