"""The UI's server: aiohttp on a loopback address, with the page, its static files and the JSON interface.

`serve` runs until it is cancelled. It fails with `BackendError` where the port is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiohttp import web

from vcjob.errors import BackendError
from vcjob.sdk.backend import Backend
from vcjob.ui.api import MAX_BODY, Api, errors_as_json
from vcjob.ui.proxied import Proxy, ProxyGuard, UserApis
from vcjob.ui.security import Guard, add_headers, new_token

STATIC = Path(__file__).with_name("static")
ADDRESS = "127.0.0.1"
#: A connection without a request that passed the checks is closed after this time, or when there are more than so many:
#: it may be one of thousands that hold room.
REQUEST_SECONDS = 30.0
MAX_UNPROVEN = 256


def build(api: Api | UserApis, guard: Guard) -> web.Application:
    """The application: JSON under /api, the static files under /static, and the one page everywhere else."""
    app = web.Application(middlewares=[errors_as_json, guard.middleware()], client_max_size=MAX_BODY)
    app.add_routes(api.routes())
    app.router.add_static("/static", STATIC, append_version=False)
    app.router.add_get("/", page)
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(api.close)
    return app


async def page(_: web.Request) -> web.FileResponse:
    return web.FileResponse(STATIC / "index.html")


async def serve(
    source: Backend | Proxy,
    *,
    port: int = 0,
    namespace: str | None = None,
    read_only: bool = False,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until cancelled; `on_ready` receives the URL: with the token, or without one behind a proxy."""
    token = "" if isinstance(source, Proxy) else new_token()
    guard: Guard
    api: Api | UserApis
    if isinstance(source, Proxy):
        guard, api = (
            ProxyGuard(source, read_only=read_only),
            UserApis(source, namespace, read_only=read_only),
        )
    else:
        guard, api = Guard(token, read_only=read_only), Api(source, namespace, read_only=read_only)
    app = build(api, guard)
    runner = web.AppRunner(
        app, access_log=None, handle_signals=False, shutdown_timeout=1.0, handler_cancellation=True
    )
    await runner.setup()
    try:
        async with await _listen(runner, guard, port) as listening:
            chosen = listening.sockets[0].getsockname()[1]
            on_ready(f"http://{ADDRESS}:{chosen}/" + (f"#token={token}" if token else ""))
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, guard: Guard, port: int) -> asyncio.Server:
    loop = asyncio.get_running_loop()

    def connected() -> asyncio.Protocol:
        assert runner.server is not None
        connection = runner.server()
        guard.unproven[connection] = loop.call_later(REQUEST_SECONDS, close, connection)
        if len(guard.unproven) > MAX_UNPROVEN:
            close(next(iter(guard.unproven)))  # the oldest
        return connection

    def close(connection: web.RequestHandler) -> None:
        guard.unproven.pop(connection).cancel()
        connection.force_close()

    try:
        return await loop.create_server(connected, ADDRESS, port, backlog=256)
    except OSError as error:
        raise BackendError(
            f"cannot listen on {ADDRESS}:{port}: {error.strerror}", hint="choose another --port"
        ) from error
