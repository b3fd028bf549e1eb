"""Servers of ours that listen: how they are bound, and what it says when they cannot be."""

from __future__ import annotations

import ssl

from aiohttp import web

from vcjob.errors import BackendError

_SHUTDOWN_SECONDS = 5.0


def bounded_runner(app: web.Application) -> web.AppRunner:
    """A runner without an access log, that gives open connections a few seconds at the end."""
    return web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)


async def listen(runner: web.AppRunner, host: str, port: int, context: ssl.SSLContext | None = None) -> None:
    """Bind; an empty `host` is every address."""
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=context, reuse_address=True).start()
    except OSError as error:
        await runner.cleanup()
        raise BackendError(
            f"cannot listen on {host or '*'}:{port}: {error.strerror or error}",
            hint="another program has the port, or the address is not this machine's",
        ) from error
