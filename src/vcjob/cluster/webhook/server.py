"""The webhook's server: TLS, bounded bodies, one answer per question, and never a traceback."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

from aiohttp import web

from vcjob.admission.review import Queues
from vcjob.cluster.http_server import bounded_runner, listen
from vcjob.cluster.webhook.review import Malformed, Purpose, answer

log = logging.getLogger(__name__)
#: What an API server stores at most is half of this; an update carries the object twice.
LARGEST_BODY = 3 * 1024 * 1024
#: A larger body is judged on a thread, so that leases and probes are not kept waiting.
_ON_THE_SPOT = 128 * 1024
_READ_SECONDS = 10.0

_QUEUES: web.AppKey[Callable[[], Queues | None]] = web.AppKey("queues")


def webhook_app(queues: Callable[[], Queues | None] = lambda: None) -> web.Application:
    """`/mutate` and `/validate` for AdmissionReviews, `/healthz` for probes."""
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[_no_traceback])
    app[_QUEUES] = queues
    app.router.add_post("/mutate", _mutate)
    app.router.add_post("/validate", _validate)
    app.router.add_get("/healthz", _healthy)
    return app


async def serve_webhook(
    context: ssl.SSLContext, *, host: str, port: int, queues: Callable[[], Queues | None] = lambda: None
) -> web.AppRunner:
    """Listen; `await runner.cleanup()` ends it, after the answers that are under way."""
    runner = bounded_runner(webhook_app(queues))
    await listen(runner, host, port, context)
    return runner


@web.middleware
async def _no_traceback(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return web.Response(status=error.status, text=f"{error.reason}\n", headers=_allowed(error))
    except Exception:
        log.exception("a review could not be answered")
        return web.Response(status=500, text="the review could not be answered; the webhook's log says why\n")


def _allowed(error: web.HTTPException) -> dict[str, str]:
    return {name: value for name, value in error.headers.items() if name == "Allow"}


async def _mutate(request: web.Request) -> web.Response:
    return await _review(request, "mutate")


async def _validate(request: web.Request) -> web.Response:
    return await _review(request, "validate")


async def _healthy(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _review(request: web.Request, purpose: Purpose) -> web.Response:
    try:
        async with asyncio.timeout(_READ_SECONDS):
            body = await request.read()
    except TimeoutError:
        return web.Response(status=408, text=f"no whole review within {_READ_SECONDS:.0f} s\n")
    queues = request.app[_QUEUES]()
    try:
        if len(body) <= _ON_THE_SPOT:
            said = answer(body, purpose, queues=queues)
        else:
            said = await asyncio.to_thread(answer, body, purpose, queues=queues)
    except Malformed as error:
        return web.Response(status=400, text=f"{error}\n")
    return web.Response(body=said, content_type="application/json")
