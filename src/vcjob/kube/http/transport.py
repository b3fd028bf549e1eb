"""Requests to one API server: credentials, flow control, and retries that are safe for each request.

A request that may have reached the server is repeated only if doing it twice has the same effect as doing it
once (`idempotent`). One that was refused before any work (429) or never left is always repeated. Failures are
raised as KubeErrors; nothing here knows what a request means.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

from vcjob.kube.backoff import Backoff, jittered
from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import ApiError, InvalidResponse, KubeError, Unreachable, api_error, parse_status
from vcjob.kube.http.base import HttpClient, HttpRequest, Pieces, Response, StreamResponse, TransportError
from vcjob.kube.http.pooled import PooledClient
from vcjob.kube.http.server_clock import ServerClock
from vcjob.kube.http.window import Window

Observer = Callable[[str, str, int, float], None]  # verb, resource, status (0: no response), seconds
MIN_RETRY_AFTER = 0.1
OVERLOADED = frozenset({429, 503, 504})
MAX_ERROR_BODY = 2**16
_BACKOFF = Backoff(0.1, 5.0, spread=0.5)


class Request(HttpRequest, kw_only=True):
    """One request to the API server, with how it may be sent.

    `Client` makes one for each call of a verb. Whether it may be repeated depends on `idempotent` alone.
    """

    verb: str  # as the API names it: get, list, create, update, patch, delete, watch
    resource: str = ""
    path: str = ""  # for messages: without the query
    idempotent: bool = True
    #: No attempt starts later than this; None: as the transport is configured; 0: a second attempt only at once,
    #: after a closed connection or renewed credentials.
    retry_seconds: float | None = None
    bypass_window: bool = False  # skip flow control: a lease must be renewed however busy we are
    guard: Callable[[], None] | None = None  # called before each attempt; raises if it must not be sent
    on_warning: Callable[[str], None] | None = None  # receives the server's warnings; None: the transport's


class Transport:
    """Sends requests to one API server as one user. `counts` and `observer` see every attempt.

    A `Client` owns it and closes it. It belongs to one event loop; requests may run concurrently.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        http: HttpClient | None = None,
        window: Window | None = None,
        retry_seconds: float = 20.0,
        observer: Observer | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.window = window or Window()
        self.clock = ServerClock()
        self.counts: Counter[tuple[str, str, int]] = Counter()  # (verb, resource, status)
        self._http = http or _http_client(config)
        self._retry_seconds = retry_seconds
        self._observer = observer
        self._on_warning = on_warning

    async def send(self, request: Request) -> bytes:
        """The body of a successful response. Raises ApiError or Unreachable."""
        loop = asyncio.get_running_loop()
        limit = self._retry_seconds if request.retry_seconds is None else request.retry_seconds
        last_start = loop.time() + limit
        failures, may_have_applied, renewed = 0, False, False
        while True:
            outcome = await self._attempt(request)
            if isinstance(outcome, Response) and outcome.status < 300:
                return outcome.body
            error: KubeError
            delay: float | None
            if isinstance(outcome, Response):
                refusal = self._api_error(request, outcome, may_have_applied)
                if refusal.status == 401 and not renewed and self.config.source.invalidate():
                    renewed = True
                    continue
                error, delay = refusal, _delay_after_refusal(request, refusal, failures)
                may_have_applied = may_have_applied or refusal.status >= 500
            else:
                may_have_applied = may_have_applied or outcome.sent
                error = self._unreachable(outcome, may_have_applied)
                delay = _delay_without_response(request, outcome, failures)
            if delay is None or (delay > 0 and loop.time() + delay > last_start):
                raise error from (outcome if isinstance(outcome, TransportError) else None)
            failures += 1
            await asyncio.sleep(delay)

    async def _attempt(self, request: Request) -> Response | TransportError:
        """Send the request once, within the window unless it bypasses it."""
        credential = await self.config.source.get()
        if request.bypass_window:
            return await self._exchange(request, credential)
        window = self.window
        place = window.try_acquire()
        if place is None:
            place = await window.acquire()
        outcome: Response | TransportError | None = None
        try:
            outcome = await self._exchange(request, credential)
            return outcome
        finally:
            if isinstance(outcome, Response):
                window.release(place, overloaded=outcome.status in OVERLOADED)
            else:
                overloaded = outcome is not None and outcome.timed_out
                window.release(place, answered=False, overloaded=overloaded)

    async def _exchange(self, request: Request, credential: Credential) -> Response | TransportError:
        if request.guard is not None:
            request.guard()
        began = perf_counter()
        try:
            response = await self._http.request(request, credential)
        except TransportError as error:
            self._count(request, 0, perf_counter() - began)
            return error
        self.clock.note(response.date)
        self._count(request, response.status, perf_counter() - began)
        if response.warnings:
            on_warning = request.on_warning or self._on_warning
            if on_warning is not None:
                for warning in response.warnings:
                    on_warning(_warning_text(warning))
        return response

    @asynccontextmanager
    async def stream(self, request: Request, *, idle_timeout: float | None = None) -> AsyncIterator[Pieces]:
        """The pieces of a long response as they arrive. It is not retried. Raises ApiError or Unreachable."""
        began = perf_counter()
        renewed = False
        while True:
            credential = await self.config.source.get()
            try:
                async with self._http.stream(request, credential, idle_timeout) as response:
                    self._count(request, response.status, perf_counter() - began)
                    if response.status == 200:
                        yield response.pieces
                        return
                    error = await self._stream_error(request, response)
            except TransportError as failure:
                self._count(request, 0, perf_counter() - began)
                raise self._unreachable(failure, False) from failure
            if error.status == 401 and not renewed and self.config.source.invalidate():
                renewed = True
                continue
            raise error

    async def close(self) -> None:
        await self._http.close()

    def _count(self, request: Request, status: int, seconds: float) -> None:
        self.counts[request.verb, request.resource, status] += 1
        if self._observer is not None:
            self._observer(request.verb, request.resource, status, seconds)

    def _api_error(self, request: Request, response: Response, retried: bool) -> ApiError:
        if response.status < 400:
            raise InvalidResponse(
                f"{self.config.server} answered {request.verb} {request.path} with {response.status}",
                hint="is it a Kubernetes API server?",
            )
        return api_error(
            response.status,
            parse_status(response.body),
            verb=request.verb,
            path=request.path,
            retry_after=_parse_retry_after(response.retry_after),
            retried=retried,
        )

    async def _stream_error(self, request: Request, response: StreamResponse) -> ApiError:
        body = b""
        async for pieces in response.pieces:
            body += b"".join(pieces)
            if len(body) > MAX_ERROR_BODY:
                break
        return self._api_error(request, Response(response.status, response.retry_after, body, []), False)

    def _unreachable(self, error: TransportError, may_have_applied: bool) -> Unreachable:
        where = self.config.server + (f" (context {self.config.context!r})" if self.config.context else "")
        hint = "is the cluster up, and is this the right context? `kubectl config get-contexts` lists them"
        if not error.retryable:
            hint = "check the server, the CA and the proxy in the kubeconfig"
        return Unreachable(
            f"no response from the API server {where}: {error}", hint=hint, may_have_applied=may_have_applied
        )


def _http_client(config: ClusterConfig) -> HttpClient:
    if not config.proxy:
        return PooledClient(config)
    from vcjob.kube.http.aiohttp_client import (
        AiohttpClient,
    )  # importing aiohttp takes longer than all the rest

    return AiohttpClient(config)


def _delay_after_refusal(request: Request, error: ApiError, failures: int) -> float | None:
    """Seconds until the next attempt; None: another attempt would not help or is not safe."""
    requested = error.retry_after
    if error.status == 429:
        return _delay(requested, failures)
    if not request.idempotent:
        return None
    if error.status in (502, 503, 504) or (
        error.status == 500 and (requested is not None or request.method == "GET")
    ):
        return _delay(requested, failures)
    return None


def _delay_without_response(request: Request, error: TransportError, failures: int) -> float | None:
    if not error.retryable or (error.sent and not request.idempotent):
        return None
    if failures == 0 and error.sent and not error.timed_out:
        return 0.0  # most likely the server had closed an idle connection: a new one is enough
    return _delay(None, failures)


def _delay(requested: float | None, failures: int) -> float:
    if requested is not None:
        return jittered(max(requested, MIN_RETRY_AFTER), 1.0, 1.25)
    return _BACKOFF.delay(failures)


def _warning_text(header: str) -> str:
    """The text of a Warning header: `299 - "text"`."""
    _, quote, rest = header.partition('"')
    return rest.removesuffix('"').replace('\\"', '"') if quote else header


def _parse_retry_after(header: str | None) -> float | None:
    """Retry-After in seconds; a date, which Kubernetes never sends, counts as absent."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
