"""The webhook's HTTPS server: reads AdmissionReviews, has them answered, and never shows a traceback.

`process.main` starts it. `http_server` bounds connections, time and memory. A review that takes long is answered on a
thread, because the event loop also renews the Lease and answers probes. Clients have these threads in turn.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TypeAlias

from aiohttp import web

from vcjob.admission.review import Queues
from vcjob.cluster.fair_share import Turns
from vcjob.cluster.http_server import HttpServer, Limits, connection_of
from vcjob.cluster.webhook.review import Malformed, Purpose, answer

log = logging.getLogger(__name__)
#: Twice what an API server stores of one object: an update carries the object twice.
LARGEST_BODY = 3 * 1024 * 1024
#: A review of up to this size takes a few milliseconds; a larger one is answered on a thread.
INLINE_BYTES = 16 * 1024
_THREADS = 2

#: Called after each review with its purpose ("mutate" or "validate"), the HTTP status and the seconds it took.
Observe: TypeAlias = Callable[[str, int, float], None]


class Webhook:
    """The handlers of `/mutate`, `/validate` and `/healthz`."""

    def __init__(self, queues: Callable[[], Queues | None], observe: Observe) -> None:
        self._queues = queues
        self._observe = observe
        self._turns = Turns(_THREADS)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="review")

    def app(self) -> web.Application:
        app = web.Application(middlewares=[_without_traceback])
        app.router.add_post("/mutate", self.mutate)
        app.router.add_post("/validate", self.validate)
        app.router.add_get("/healthz", self.healthz)
        app.on_cleanup.append(self._end)
        return app

    async def mutate(self, request: web.Request) -> web.Response:
        return await self._observed(request, "mutate")

    async def validate(self, request: web.Request) -> web.Response:
        return await self._observed(request, "validate")

    async def healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _observed(self, request: web.Request, purpose: Purpose) -> web.Response:
        start, status = time.monotonic(), 500
        try:
            response = await self._review(request, purpose)
            status = response.status
            return response
        except web.HTTPException as error:
            status = error.status
            raise
        finally:
            self._observe(purpose, status, time.monotonic() - start)

    async def _review(self, request: web.Request, purpose: Purpose) -> web.Response:
        connection = connection_of(request)
        body = await connection.read_body(request, LARGEST_BODY)
        queues = self._queues()
        try:
            if len(body) <= INLINE_BYTES:
                answered = answer(body, purpose, queues=queues)
            else:
                async with AsyncExitStack() as stack:
                    turn = self._turns.turn(connection.address)
                    await connection.wait_for(stack.enter_async_context(turn))
                    if connection.lost:
                        raise web.HTTPServiceUnavailable(reason="the client is gone")
                    answered = await asyncio.get_running_loop().run_in_executor(
                        self._threads, lambda: answer(body, purpose, queues=queues)
                    )
        except Malformed as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(body=answered, content_type="application/json")

    async def _end(self, _: web.Application) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def serve_webhook(
    context: ssl.SSLContext,
    *,
    host: str,
    port: int,
    queues: Callable[[], Queues | None] = lambda: None,
    observe: Observe = lambda *_: None,
    limits: Limits = Limits(),  # noqa: B008 - immutable
) -> HttpServer:
    """Listen; `await server.close()` ends it after the requests in progress."""
    server = HttpServer(Webhook(queues, observe).app(), limits)
    await server.start(host, port, context)
    return server


@web.middleware
async def _without_traceback(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.Response(status=error.status, text=f"{error.reason}\n", headers=_allow_header(error))
    except (ConnectionError, web.RequestPayloadError):
        raise  # the client is gone: there is nobody to answer
    except Exception:
        log.exception("a review could not be answered")
        return web.Response(status=500, text="the review could not be answered; the webhook's log says why\n")


def _allow_header(error: web.HTTPException) -> dict[str, str]:
    return {name: value for name, value in error.headers.items() if name == "Allow"}
