"""Server-sent events: what a blocking producer yields in a thread, sent to one client.

The producer waits while the client is slow (a bounded queue), and ends when the client has gone. The number of streams
is limited, because each holds a thread; one client more is answered with 503. A comment is sent when nothing
happens, so that a connection that died is noticed. A producer that fails ends its own stream with the event "gone".
A client that takes nothing for a while is disconnected, because it holds a place that others may need.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import msgspec
from aiohttp import web

from vcjob.errors import VcjobError

log = logging.getLogger(__name__)
#: (event, data), perhaps with an id, or the seconds to wait before the producer is asked again.
Produced: TypeAlias = tuple[str, Any] | tuple[str, Any, str] | float
Producer: TypeAlias = Callable[[], Iterator[Produced]]

MAX_STREAMS = 64
QUEUED = 16
HEARTBEAT_SECONDS = 15.0
#: How long a producer waits after a backend did not answer.
TROUBLE_SECONDS = 5.0
#: How long a client may take for one message.
WRITE_SECONDS = 60.0
#: A proxy such as nginx would else keep events back until it has many.
HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
INTERNAL_ERROR = "vcjob itself failed; its terminal shows the traceback"


class Places:
    """How many streams are open, of all users together."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0


class Streams:
    """All streams of one user. `places`: shared with other users.

    After `seconds` a stream ends with the event "again": its page opens another at once, which is checked again.
    """

    def __init__(
        self, limit: int = MAX_STREAMS, *, seconds: float | None = None, places: Places | None = None
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._places = places or Places(limit)
        self._pool = ThreadPoolExecutor(limit, "vcjob-ui-stream")
        self._running: dict[threading.Event, asyncio.Queue[bytes | None]] = {}

    async def serve(self, request: web.Request, producer: Producer) -> web.StreamResponse:
        full = self._full()
        if full:
            return web.json_response({"error": {"message": full}}, status=503)
        stop = threading.Event()
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._pool, _produce, producer, queue, loop, stop)
        self._running[stop] = queue
        self._places.taken += 1
        response = web.StreamResponse(headers=HEADERS)
        try:
            await response.prepare(request)
            await self._send(response, queue)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the page was closed
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()  # its buffer is full, so it cannot be closed in an orderly way
        finally:
            stop.set()
            _clear(queue)  # lets a waiting producer see the stop
            try:
                await asyncio.wait([work])
            finally:
                del self._running[stop]
                self._places.taken -= 1
        return response

    def _full(self) -> str:
        """Why no other stream may be opened; empty if one may."""
        if len(self._running) >= self._limit:
            return f"more than {self._limit} streams are open; close other pages"
        if self._places.taken >= self._places.limit:
            return f"all users together have {self._places.limit} streams open; try again later"
        return ""

    async def _send(self, response: web.StreamResponse, queue: asyncio.Queue[bytes | None]) -> None:
        """Send what is produced, until the end or for `seconds`. TimeoutError: the client takes nothing."""
        loop = asyncio.get_running_loop()
        end = float("inf") if self._seconds is None else loop.time() + self._seconds
        while (left := end - loop.time()) > 0:
            try:
                message = await asyncio.wait_for(queue.get(), min(left, HEARTBEAT_SECONDS))
            except TimeoutError:
                message = b": still here\n\n"
            if message is None:
                return
            await _write(response, message)
        await _write(response, encode("again", {}))

    def close(self) -> None:
        """End every stream; its client sees the end of the response."""
        for stop, queue in self._running.items():
            stop.set()
            _clear(queue)
            queue.put_nowait(None)
        self._pool.shutdown(wait=False, cancel_futures=True)


async def _write(response: web.StreamResponse, message: bytes) -> None:
    async with asyncio.timeout(WRITE_SECONDS):
        await response.write(message)


def _clear(queue: asyncio.Queue[bytes | None]) -> None:
    while not queue.empty():
        queue.get_nowait()


def _produce(
    producer: Producer,
    queue: asyncio.Queue[bytes | None],
    loop: asyncio.AbstractEventLoop,
    stop: threading.Event,
) -> None:
    """In a thread: run the producer until it ends or the client has gone."""

    def put(message: bytes | None) -> None:
        waiting = asyncio.run_coroutine_threadsafe(queue.put(message), loop)
        while not stop.is_set():
            try:
                waiting.result(timeout=0.5)
                return
            except TimeoutError:
                continue  # the client is slow; the same message waits on, so that none is sent twice
        waiting.cancel()

    try:
        for produced in producer():
            if stop.is_set():
                return
            if isinstance(produced, float):
                stop.wait(produced)
                continue
            put(encode(*produced))
    except VcjobError as error:
        put(encode("gone", {"message": error.message, "hint": error.hint}))
    except Exception:
        log.exception("a stream failed")
        put(encode("gone", {"message": INTERNAL_ERROR}))
    finally:
        put(None)


def encode(event: str, data: object, position: str = "") -> bytes:
    """One event; `position` is its id, from which the client can continue."""
    begin = b"id: " + position.encode() + b"\n" if position else b""
    return begin + b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
