"""A server between a client and the API server that misbehaves on demand.

It speaks TLS with a certificate of the testbed's authority and goes on to the API server under one identity, so a client needs
nothing but ``proxy.kubeconfig``::

    with ApiProxy(cluster, "vcjob-controller", "system:masters") as proxy:
        proxy.add(Fault(method="POST", path="/pods$", answer=429, retry_after=1, times=3))
        proxy.add(Fault(path="/pods", watch=True, gone=True, times=1))      # the watch says 410 in its stream
        proxy.add(Fault(method="PATCH", lose_answer=True, chance=0.1))      # done, but the client never learns
        proxy.cut_watches()

The first fault that matches a request is used up first; a request that none matches passes unchanged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import ssl
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web

from tests.testbed.cluster import Cluster

REASONS = {
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
Result = TypeVar("Result")
HOP_BY_HOP = {"connection", "transfer-encoding", "keep-alive", "upgrade", "content-length", "host"}


@dataclass
class Fault:
    """Which requests, and what becomes of them. Several effects may be combined with ``delay``."""

    method: str | None = None
    path: str | None = None  # a regular expression, searched in the path
    watch: bool | None = None
    times: int | None = None  # how often; None: until it is removed
    chance: float = 1.0
    delay: float = 0.0
    answer: int | None = None  # a Status with this code, without asking the API server
    retry_after: int | None = None
    drop: bool = False  # the connection is closed and the API server never hears of it
    lose_answer: bool = False  # the API server does it, then the connection is closed
    gone: bool = False  # a watch that starts with a 410 in its stream
    cut_after: float | None = None  # a watch that ends in the middle of a line after so many seconds
    used: int = 0

    def takes(self, request: web.BaseRequest, chance: float) -> bool:
        watch = _is_watch(request)
        return (
            (self.times is None or self.used < self.times)
            and (self.method is None or self.method == request.method)
            and (self.watch is None or self.watch == watch)
            and (self.path is None or re.search(self.path, request.path) is not None)
            and chance < self.chance
        )


class ApiProxy:
    """Runs in a thread of its own; every method may be called from the test's thread."""

    def __init__(self, cluster: Cluster, user: str, *groups: str, seed: int = 0) -> None:
        self._cluster = cluster
        self._faults: list[Fault] = []
        self._random = random.Random(seed)
        self._watches: set[asyncio.Task[Any]] = set()
        self.requests = 0
        authority = cluster.control_plane.certificates
        self._server_tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._server_tls.load_cert_chain(*authority.issue("proxy", "proxy", hosts=("127.0.0.1", "localhost")))
        self._client_tls = ssl.create_default_context(cafile=str(authority.file))
        self._client_tls.load_cert_chain(*authority.issue(f"proxy-to-{user}".replace(":", "-"), user, groups))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.kubeconfig: Path
        self.server: str

    def __enter__(self) -> Self:
        self._thread.start()
        port = self._call(self._start())
        self.server = f"https://127.0.0.1:{port}"
        authority = self._cluster.control_plane.certificates
        path = self._cluster.folder / "kubeconfigs" / f"proxy-{port}.json"
        self.kubeconfig = authority.kubeconfig(path, self.server, "behind-the-proxy")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, fault: Fault) -> Fault:
        self._faults.append(fault)
        return fault

    def put_first(self, fault: Fault) -> Fault:
        """Before all that were added so far."""
        self._faults.insert(0, fault)
        return fault

    def remove(self, fault: Fault) -> None:
        if fault in self._faults:
            self._faults.remove(fault)

    def clear(self) -> None:
        self._faults.clear()

    def cut_watches(self) -> int:
        """Closes every watch that is open now, without a farewell; gives their number."""

        async def cut() -> int:
            tasks = list(self._watches)
            for task in tasks:
                task.cancel()
            return len(tasks)

        return self._call(cut())

    def _call(self, work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> int:
        self._session = ClientSession(
            connector=TCPConnector(ssl=self._client_tls, limit=0),
            auto_decompress=False,
            timeout=ClientTimeout(total=None),
        )
        self._runner = web.ServerRunner(web.Server(self._handle, auto_decompress=False), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._server_tls)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _stop(self) -> None:
        for task in list(self._watches):
            task.cancel()
        await self._runner.cleanup()
        await self._session.close()

    def _fault_for(self, request: web.BaseRequest) -> Fault:
        for fault in self._faults:
            if fault.takes(request, self._random.random()):
                fault.used += 1
                return fault
        return Fault()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests += 1
        fault = self._fault_for(request)
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.drop:
            return _hang_up(request)
        if fault.answer is not None:
            return _status(fault.answer, fault.retry_after)
        if _is_watch(request):
            return await self._watch(request, fault)
        try:
            async with self._ask(request, await request.read()) as answer:
                body = await answer.read()
                if fault.lose_answer:
                    return _hang_up(request)
                return web.Response(status=answer.status, headers=_passed_on(answer.headers), body=body)
        except ClientError:
            return _hang_up(request)

    async def _watch(self, request: web.BaseRequest, fault: Fault) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._watches.add(task)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        try:
            async with asyncio.timeout(fault.cut_after), self._ask(request, b"") as answer:
                response.set_status(answer.status)
                await response.prepare(request)
                if fault.gone:
                    event = {"type": "ERROR", "object": _status_object(410, "too old resource version")}
                    await response.write(json.dumps(event).encode() + b"\n")
                    return response
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            return response
        except TimeoutError:
            with contextlib.suppress(ConnectionError, ClientError):  # the client may have gone first
                if response.prepared:
                    await response.write(b'{"type": "MODIFIED", "obj')
            return _hang_up(request)
        except (asyncio.CancelledError, ClientError, ConnectionError):
            return _hang_up(request)
        finally:
            self._watches.discard(task)

    def _ask(self, request: web.BaseRequest, body: bytes) -> Any:
        url = self._cluster.server + str(request.rel_url)
        return self._session.request(
            request.method, url, headers=_passed_on(request.headers), data=body or None
        )


def _is_watch(request: web.BaseRequest) -> bool:
    """A log that is followed is one too: its answer has no end."""
    return (
        "true" in (request.query.get("watch"), request.query.get("follow"))
        or request.query.get("watch") == "1"
    )


def _passed_on(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in HOP_BY_HOP}


def _hang_up(request: web.BaseRequest) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=502)


def _status_object(code: int, message: str) -> dict[str, Any]:
    reason = REASONS.get(code, "Unknown")
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }


def _status(code: int, retry_after: int | None) -> web.Response:
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return web.json_response(
        _status_object(code, f"the testbed answers {code} on purpose"), status=code, headers=headers
    )
