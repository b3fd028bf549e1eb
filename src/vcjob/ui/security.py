"""Who may talk to the UI: requests to this address, with the token, from its own pages.

The token travels in the fragment of the printed URL, which browsers never send, and then in a header that only the
page's own script can set. There is no cookie, so no other site can act in the user's name. The Host header is checked
against DNS rebinding. Violations are answered with 403 and one sentence, and say nothing about jobs.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from aiohttp import web
from aiohttp.typedefs import Middleware

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types vcjob"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
#: The names of the address that the server listens on; [::1] is another one, which anybody else may have. Any port is
#: right: a tunnel may have another one; a page of another port has another Origin, and none has the token.
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost)(:[0-9]{1,5})?")


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Guard:
    """The checks for one server."""

    def __init__(self, token: str, *, read_only: bool = False) -> None:
        self._token = token
        self._read_only = read_only
        #: The timers that close connections, oldest first; a request with the token cancels that of its connection.
        self.unproven: dict[web.RequestHandler, asyncio.TimerHandle] = {}

    def middleware(self) -> Middleware:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            reason = self._objection(request)
            if reason:
                return web.json_response({"error": {"message": reason}}, status=403, headers=HEADERS)
            if self._proves(request):
                timer = self.unproven.pop(request.protocol, None)
                if timer:
                    timer.cancel()
            return await handler(request)

        return guarded

    def _proves(self, request: web.Request) -> bool:
        """Whether a request that was not rejected shows that its sender has the token."""
        return request.path.startswith("/api/")

    def _objection(self, request: web.Request) -> str:
        """Why a request is rejected; empty if it is not."""
        host = request.headers.get("Host", "")
        if not _LOOPBACK.fullmatch(host):
            return "the Host header does not name this server: open it as 127.0.0.1 or localhost"
        origin = request.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "requests from other sites are not allowed"
        if not request.path.startswith("/api/"):
            return "" if request.method in ("GET", "HEAD") else "this page cannot be changed"
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not hmac.compare_digest(
            given.encode(errors="surrogateescape"), self._token.encode()
        ):
            return "the token is missing or wrong; use the URL that `vcjob ui` printed"
        if self._read_only and request.method not in ("GET", "HEAD"):
            return "this server was started with --read-only"
        return ""


async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
    """Signal `on_response_prepare`: every response has the security headers, streams included."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
