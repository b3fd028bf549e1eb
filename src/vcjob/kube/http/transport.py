"""Requests that arrive: credentials, flow control, and retries that are safe for what was asked.

A request that may have reached the server is sent again only if doing it twice is the same as doing
it once (`idempotent`); one that was refused before any work (429) or never left is always sent again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import perf_counter

import msgspec

from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import ApiError, BadAnswer, KubeError, Unreachable, api_error, parse_status
from vcjob.kube.http.base import AiohttpWire, Answer, Stream, Wire, WireError
from vcjob.kube.http.pooled import KeptWire
from vcjob.kube.http.server_clock import ServerClock
from vcjob.kube.http.window import Window
from vcjob.kube.jitter import jittered

Observer = Callable[[str, str, int, float], None]  # verb, resource, status (0: no answer), seconds
FIRST_DELAY, MOST_DELAY = 0.1, 5.0
OVERLOADED = frozenset({429, 503, 504})


class Call(msgspec.Struct, kw_only=True):
    """One thing asked of the API server."""

    method: str
    target: str  # path and query, as sent
    verb: str  # as the API names it: get, list, create, update, patch, delete, deletecollection, watch
    resource: str = ""
    path: str = ""  # for messages: without the query
    body: bytes | None = None
    content_type: str = ""
    idempotent: bool = True
    seconds: float = 30.0  # for each try
    patience: float | None = None  # for all tries; None: the transport's own; 0: one try
    urgent: bool = False  # passes the window: a lease must be renewed however busy we are
    guard: Callable[[], None] | None = None  # asked before each try; raises if we may no longer write
    on_warning: Callable[[str], None] | None = None  # hears the server's warnings, not the transport's own


class Transport:
    """Sends calls to one API server as one user."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        wire: Wire | None = None,
        window: Window | None = None,
        patience: float = 20.0,
        observer: Observer | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> None:
        self.config = config
        self.window = window or Window()
        self.clock = ServerClock()
        self.counts: Counter[tuple[str, str, int]] = Counter()  # (verb, resource, status)
        self._wire = wire or (AiohttpWire(config) if config.proxy else KeptWire(config))
        self._patience = patience
        self._observer = observer
        self._on_warning = on_warning

    async def send(self, call: Call) -> bytes:
        """The body of a good answer; anything else is raised."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + (self._patience if call.patience is None else call.patience)
        tries, maybe_done, renewed = 0, False, False
        while True:
            outcome = await self._try(call)
            if isinstance(outcome, Answer) and outcome.status < 300:
                return outcome.body
            error: KubeError
            delay: float | None
            if isinstance(outcome, Answer):
                failure = self._refusal(call, outcome, maybe_done)
                if failure.status == 401 and not renewed and self.config.source.invalidate():
                    renewed = True
                    continue
                error, delay = failure, _delay_after(call, failure, tries)
                maybe_done = maybe_done or failure.status >= 500
            else:
                maybe_done = maybe_done or outcome.sent
                error = self._unreachable(outcome, maybe_done)
                delay = _delay_without_answer(call, outcome, tries)
            if delay is None or (delay > 0 and loop.time() + delay > give_up):
                raise error from (outcome if isinstance(outcome, WireError) else None)
            tries += 1
            await asyncio.sleep(delay)

    async def _try(self, call: Call) -> Answer | WireError:
        credential = await self.config.source.get()
        if call.urgent:
            return await self._ask(call, credential)
        window = self.window
        place = window.take()
        if place is None:
            place = await window.acquire()
        outcome: Answer | WireError | None = None
        try:
            outcome = await self._ask(call, credential)
            return outcome
        finally:
            if isinstance(outcome, Answer):
                window.release(place, overloaded=outcome.status in OVERLOADED)
            else:
                window.release(place, answered=False, overloaded=outcome is not None and outcome.slow)

    async def _ask(self, call: Call, credential: Credential) -> Answer | WireError:
        if call.guard is not None:
            call.guard()
        began = perf_counter()
        try:
            answer = await self._wire.fetch(
                call.method,
                call.target,
                body=call.body,
                content_type=call.content_type,
                credential=credential,
                seconds=call.seconds,
            )
        except WireError as error:
            self._count(call, 0, perf_counter() - began)
            return error
        self.clock.note(answer.date)
        self._count(call, answer.status, perf_counter() - began)
        on_warning = call.on_warning or self._on_warning
        if answer.warnings and on_warning is not None:
            for warning in answer.warnings:
                on_warning(_warning_text(warning))
        return answer

    @asynccontextmanager
    async def stream(
        self, call: Call, *, silence: float | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The chunks of a long answer as they come. `silence`: seconds without a byte that end it."""
        began = perf_counter()
        renewed = False
        while True:
            credential = await self.config.source.get()
            try:
                async with self._wire.stream(call.target, credential, silence) as stream:
                    self._count(call, stream.status, perf_counter() - began)
                    if stream.status == 200:
                        yield stream.chunks
                        return
                    error = await self._stream_refusal(call, stream)
            except WireError as failure:
                self._count(call, 0, perf_counter() - began)
                raise self._unreachable(failure, False) from failure
            if error.status == 401 and not renewed and self.config.source.invalidate():
                renewed = True
                continue
            raise error

    async def close(self) -> None:
        await self._wire.close()

    def _count(self, call: Call, status: int, seconds: float) -> None:
        self.counts[call.verb, call.resource, status] += 1
        if self._observer is not None:
            self._observer(call.verb, call.resource, status, seconds)

    def _refusal(self, call: Call, answer: Answer, retried: bool) -> ApiError:
        if answer.status < 400:
            raise BadAnswer(
                f"{self.config.server} answered {call.verb} {call.path} with {answer.status}: is it a Kubernetes API server?"
            )
        return api_error(
            answer.status,
            parse_status(answer.body),
            verb=call.verb,
            path=call.path,
            retry_after=_seconds(answer.retry_after),
            retried=retried,
        )

    async def _stream_refusal(self, call: Call, stream: Stream) -> ApiError:
        body = b""
        async for chunk in stream.chunks:
            body += chunk
            if len(body) > 65536:
                break
        return self._refusal(call, Answer(stream.status, stream.retry_after, body, []), False)

    def _unreachable(self, error: WireError, maybe_done: bool) -> Unreachable:
        where = self.config.server + (f" (context {self.config.context!r})" if self.config.context else "")
        hint = "is the cluster up, and is this the right context? `kubectl config get-contexts` lists them"
        if not error.again:
            hint = "check the server, the CA and the proxy in the kubeconfig"
        return Unreachable(
            f"no answer from the API server {where}: {error}", hint=hint, maybe_done=maybe_done
        )


def _delay_after(call: Call, error: ApiError, tries: int) -> float | None:
    """How long to wait after a refusal before the next try; None: another try would not help."""
    asked = error.retry_after
    if error.status == 429:
        return _delay(asked, tries)
    if not call.idempotent:
        return None
    if error.status in (502, 503, 504) or (
        error.status == 500 and (asked is not None or call.method == "GET")
    ):
        return _delay(asked, tries)
    return None


def _delay_without_answer(call: Call, error: WireError, tries: int) -> float | None:
    if not error.again or (error.sent and not call.idempotent):
        return None
    if tries == 0 and error.sent and not error.slow:
        return 0.0  # the server had closed an idle connection: a new one is all it takes
    return _delay(None, tries)


def _delay(asked: float | None, tries: int) -> float:
    if asked is not None:
        return jittered(max(asked, FIRST_DELAY), 1.0, 1.25)
    return jittered(min(MOST_DELAY, FIRST_DELAY * 2.0**tries), 0.5, 1.5)


def _warning_text(header: str) -> str:
    """The words of a Warning header: `299 - "words"`."""
    _, quote, rest = header.partition('"')
    return rest.removesuffix('"').replace('\\"', '"') if quote else header


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; dates, which Kubernetes never sends, count as absent."""
    try:
        return max(0.0, float(header)) if header else None
    except ValueError:
        return None
