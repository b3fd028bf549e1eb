"""The UI behind an authenticating proxy: every request acts with the permissions of the user that the proxy names.

`vcjob ui --behind-proxy` uses it; the chart runs that in a pod together with the proxy. The server listens on the
loopback address, so only the proxy in the same pod can reach it; with a shared secret the proxy must also prove itself
on each request. Toward the cluster the user is impersonated, so the API server decides what the user may see and do.
A request without exactly one user, or with an identity of Kubernetes itself (`system:`), is answered with 403.
"""

from __future__ import annotations

import asyncio
import hmac
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, Protocol

from aiohttp import web

from vcjob.sdk.backend import Backend
from vcjob.ui.api import ROUTES, Api
from vcjob.ui.security import Guard, Handler
from vcjob.ui.streams import Places

SECRET_HEADER = "X-Vcjob-Proxy-Secret"  # noqa: S105 - the name of a header
#: Users whose connections are kept; the one that was idle longest is closed for the next.
MAX_USERS = 64
#: Streams of all users together: each holds a thread.
MAX_STREAMS = 256
#: The longest life of a stream: then its page opens a new one, for which the proxy checks the user's session again.
STREAM_SECONDS = 300.0


class Identity(NamedTuple):
    """The user and the groups that the proxy has authenticated."""

    user: str
    groups: tuple[str, ...]


class UserBackend(Backend, Protocol):
    """A backend that acts as one user and holds connections of its own."""

    def close(self) -> None:
        """Close the connections."""


class Proxy(NamedTuple):
    """What the proxy sends. `backend_of` returns a backend that acts as the given user."""

    backend_of: Callable[[Identity], UserBackend]
    user_header: str = "X-Remote-User"
    group_header: str = "X-Remote-Group"
    secret: str = ""

    def identity(self, request: web.Request) -> Identity | None:
        """The user of a request; None unless exactly one is named, and it is a person's."""
        users = [user.strip() for user in request.headers.getall(self.user_header, [])]
        listed = ",".join(request.headers.getall(self.group_header, [])).split(",")
        groups = tuple(sorted({group.strip() for group in listed} - {""}))
        names = (*users, *groups)
        if len(users) != 1 or not users[0] or not all(name.isprintable() for name in names):
            return None
        if any(name.startswith("system:") for name in names):
            return None
        return Identity(users[0], groups)


class ProxyGuard(Guard):
    """The checks for a server behind a proxy: the proxy's secret, one user, and no request of another site."""

    def __init__(self, proxy: Proxy, *, read_only: bool = False) -> None:
        super().__init__("", read_only=read_only)
        self._proxy = proxy

    def _proves(self, request: web.Request) -> bool:
        return True  # every connection is the proxy's own

    def _objection(self, request: web.Request) -> str:
        given = request.headers.get(SECRET_HEADER, "")
        if self._proxy.secret and not hmac.compare_digest(
            given.encode(errors="surrogateescape"), self._proxy.secret.encode()
        ):
            return "only the authenticating proxy may send requests"
        origin = request.headers.get("Origin")
        hosts = {request.headers.get("Host"), request.headers.get("X-Forwarded-Host")}
        foreign = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if origin is not None and origin.partition("://")[2] not in hosts:
            return "requests from other sites are not allowed"
        if foreign and request.path.startswith("/api/"):  # a link to the page itself is allowed
            return "requests from other sites are not allowed"
        if self._proxy.identity(request) is None:
            return f"the proxy must name one user in {self._proxy.user_header}, and no identity of the cluster itself"
        if request.method not in ("GET", "HEAD"):
            if not request.path.startswith("/api/"):
                return "this page cannot be changed"
            if self._read_only:
                return "this server was started with --read-only"
        return ""


class UserApis:
    """The routes of `Api`, each served by the Api of the user who sent the request."""

    def __init__(self, proxy: Proxy, namespace: str | None, *, read_only: bool) -> None:
        self._proxy = proxy
        self._namespace = namespace
        self._read_only = read_only
        self._users: OrderedDict[Identity, tuple[Api, UserBackend]] = OrderedDict()
        self._places = Places(MAX_STREAMS)

    def routes(self) -> list[web.RouteDef]:
        return [web.RouteDef(method, path, self._dispatch(name), {}) for method, path, name in ROUTES]

    def _dispatch(self, name: str) -> Handler:
        async def dispatched(request: web.Request) -> web.StreamResponse:
            response: web.StreamResponse = await getattr(await self._of(request), name)(request)
            return response

        return dispatched

    async def _of(self, request: web.Request) -> Api:
        identity = self._proxy.identity(request)
        assert identity is not None, "the guard has checked it"
        if identity not in self._users:
            backend = self._proxy.backend_of(identity)
            self._users[identity] = self._api(backend), backend
        self._users.move_to_end(identity)
        found, _ = self._users[identity]  # before the pause below, in which another request may remove it
        if len(self._users) > MAX_USERS:
            _, idle = self._users.popitem(last=False)
            await self._close(*idle)
        return found

    def _api(self, backend: UserBackend) -> Api:
        return Api(
            backend,
            self._namespace,
            read_only=self._read_only,
            stream_seconds=STREAM_SECONDS,
            places=self._places,
        )

    async def _close(self, api: Api, backend: UserBackend) -> None:
        api.end()
        await asyncio.to_thread(backend.close)

    async def close(self, _: web.Application) -> None:
        while self._users:
            await self._close(*self._users.popitem()[1])
