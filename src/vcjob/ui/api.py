"""The JSON interface of the page: routes under /api.

Handlers parse the request, call the SDK in a thread and answer with JSON. An error of vcjob's becomes its message and
hint with a 4xx code; anything else is a 500 without details, and the traceback is logged.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from vcjob._version import __version__
from vcjob.errors import InvalidJob, NoSuchJob, VcjobError
from vcjob.report.logs import LogFilter
from vcjob.sdk.backend import Backend, RunOptions
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import load, validate
from vcjob.ui import jobs, manifests, producers
from vcjob.ui.downloads import send_log
from vcjob.ui.producers.listing import JobList
from vcjob.ui.producers.log_stream import moment_of
from vcjob.ui.security import Handler
from vcjob.ui.streams import INTERNAL_ERROR, Places, Streams

log = logging.getLogger(__name__)
T = TypeVar("T")

ACTIONS = frozenset({"suspend", "resume", "restart", "complete", "stop", "delete"})
MAX_BODY = 3 * 1024 * 1024
#: Earlier lines of each container.
DEFAULT_TAIL, MAX_TAIL = 2000, 20_000
THREADS = 16
_JOB = "/api/jobs/{namespace}/{name}"
#: Method, path and the method of `Api` that answers. Whatever acts is a POST, which a read-only server rejects.
ROUTES = (
    ("GET", "/api/info", "info"),
    ("GET", "/api/jobs", "list"),
    ("GET", "/api/stream", "list_stream"),
    ("GET", _JOB, "job"),
    ("GET", f"{_JOB}/stream", "job_stream"),
    ("GET", f"{_JOB}/manifest/{{form}}", "manifest"),
    ("GET", f"{_JOB}/differences", "differences"),
    ("GET", "/api/denied/{namespace}", "denied"),
    ("GET", f"{_JOB}/logs", "logs"),
    ("GET", f"{_JOB}/logs.txt", "download"),
    ("POST", f"{_JOB}/actions/{{action}}", "act"),
    ("POST", f"{_JOB}/stacks", "stacks"),
    ("POST", "/api/validate", "validate"),
    ("POST", "/api/run", "run"),
)


class _Text(msgspec.Struct):
    text: str


class Api:
    """The routes of one server, over one backend."""

    def __init__(
        self,
        backend: Backend,
        namespace: str | None,
        *,
        read_only: bool,
        stream_seconds: float | None = None,
        places: Places | None = None,
    ) -> None:
        self._backend = backend
        self._namespace = namespace
        self._read_only = read_only
        self._pool = ThreadPoolExecutor(THREADS, "vcjob-ui")
        self.streams = Streams(seconds=stream_seconds, places=places)

    def routes(self) -> list[web.RouteDef]:
        return [web.RouteDef(method, path, getattr(self, name), {}) for method, path, name in ROUTES]

    async def close(self, _: web.Application) -> None:
        self.end()

    def end(self) -> None:
        """End every stream and accept no more work."""
        self.streams.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _call(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function)

    async def _read_job(self, request: web.Request, read: Callable[[Handle], T]) -> T:
        namespace, name = _job_of(request)
        return await self._call(lambda: read(self._backend.find(name, namespace)))

    # Reading

    async def info(self, _: web.Request) -> web.Response:
        return _json(
            {
                "version": __version__,
                "backend": self._backend.name,
                "namespace": self._namespace,
                "readOnly": self._read_only,
            }
        )

    async def list(self, _: web.Request) -> web.Response:
        return _json({"jobs": await self._call(JobList(self._backend, self._namespace).read)})

    async def list_stream(self, request: web.Request) -> web.StreamResponse:
        return await self.streams.serve(request, lambda: producers.job_list(self._backend, self._namespace))

    async def job(self, request: web.Request) -> web.Response:
        return _json(await self._read_job(request, jobs.detail))

    async def job_stream(self, request: web.Request) -> web.StreamResponse:
        namespace, name = _job_of(request)
        return await self.streams.serve(
            request, lambda: producers.one_job(self._backend, namespace, name, read_only=self._read_only)
        )

    async def manifest(self, request: web.Request) -> web.Response:
        """The Job in one of the forms of `manifests`, as YAML."""
        read = manifests.FORMS.get(request.match_info["form"])
        if read is None:
            raise web.HTTPNotFound
        return _json({"text": await self._read_job(request, read)})

    async def differences(self, request: web.Request) -> web.Response:
        return _json({"differences": await self._read_job(request, manifests.differences)})

    async def denied(self, request: web.Request) -> web.Response:
        """What the caller may not do in a namespace, with the reasons."""
        namespace = _part(request, "namespace")
        return _json({"denied": await self._call(lambda: self._backend.denied(namespace))})

    async def logs(self, request: web.Request) -> web.StreamResponse:
        namespace, name = _job_of(request)
        chosen = _log_choice(request)
        tail, since = _log_part(request)
        return await self.streams.serve(
            request,
            lambda: producers.log_lines(
                self._backend, namespace, name, chosen, tail=tail, since=since, read_only=self._read_only
            ),
        )

    async def download(self, request: web.Request) -> web.StreamResponse:
        """The whole log as text, sent as it is read."""
        namespace, name = _job_of(request)
        chosen = _log_choice(request)
        job = await self._call(lambda: self._backend.find(name, namespace))
        return await send_log(request, job, chosen, self._call)

    # Changing

    async def act(self, request: web.Request) -> web.Response:
        namespace, name = _job_of(request)
        action = request.match_info["action"]
        if action not in ACTIONS:
            raise web.HTTPNotFound

        def act() -> None:
            getattr(self._backend.find(name, namespace), action)()

        await self._call(act)
        return _json({"done": action})

    async def stacks(self, request: web.Request) -> web.Response:
        """Where every rank is. Not for a read-only server: this stops each process for some milliseconds, and on a
        cluster it runs a program in the pods."""
        return _json(await self._read_job(request, jobs.stacks))

    async def validate(self, request: web.Request) -> web.Response:
        text = await _text(request)
        found = await self._call(lambda: validate(text))
        return _json({"problems": [problem.to_json() for problem in found]})

    async def run(self, request: web.Request) -> web.Response:
        text = await _text(request)

        def start() -> dict[str, Any]:
            loaded = load(text, backend=self._backend.name)
            options = RunOptions(namespace=self._namespace, text=text)
            return jobs.summary(self._backend.start(loaded, options))

        return _json({"job": await self._call(start)})


def _job_of(request: web.Request) -> tuple[str, str]:
    return _part(request, "namespace"), _part(request, "name")


def _part(request: web.Request, key: str) -> str:
    """A part of the path, decoded. What cannot be one part of a path is no name: `%2F` arrives here as `/`."""
    value = request.match_info[key]
    if value in (".", "..") or "/" in value or not value.isprintable():
        raise web.HTTPNotFound(text=f"{value!r} is not the {key} of a job")
    return value


def _log_choice(request: web.Request) -> LogFilter:
    query = request.query
    try:
        ranks = tuple(int(rank) for rank in query.getall("rank", []))
        attempt = int(query["attempt"]) if "attempt" in query else None
        index = int(query["index"]) if "index" in query else None
    except ValueError as error:
        raise web.HTTPBadRequest(text="rank, index and attempt are numbers") from error
    return LogFilter(
        ranks,
        tuple(query.getall("task", [])),
        tuple(query.getall("container", [])),
        attempt,
        "previous" in query,
        pod_index=index,
    )


def _log_part(request: web.Request) -> tuple[int, float | None]:
    """The number of earlier lines of each container, and the position after which a page continues."""
    query = request.query
    since = query.get("since")
    try:
        tail = min(int(query.get("tail", MAX_TAIL if since else DEFAULT_TAIL)), MAX_TAIL)
        return tail, moment_of(since) if since else None
    except (ValueError, OverflowError) as error:
        raise web.HTTPBadRequest(text="tail is a number, and since is the id of an event") from error


async def _text(request: web.Request) -> str:
    try:
        text = msgspec.json.decode(await request.read(), type=_Text).text
    except msgspec.DecodeError as error:
        raise web.HTTPBadRequest(text='the body must be {"text": "..."}') from error
    return f"{text}\n"  # with a line break it is text for the SDK, never the path of a file


def _json(value: object, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(value), status=status, content_type="application/json", charset="utf-8"
    )


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware: every failure is JSON with a message, and a traceback never leaves the server."""
    try:
        return await handler(request)
    except InvalidJob as error:
        problems = [problem.to_json() for problem in error.problems]
        return _json({"error": {"message": error.message, "hint": error.hint, "problems": problems}}, 422)
    except VcjobError as error:
        code = 404 if isinstance(error, NoSuchJob) else 409 if error.exit_code == 2 else 502
        return _json({"error": {"message": error.message, "hint": error.hint}}, code)
    except web.HTTPException as error:
        return _json({"error": {"message": error.text or error.reason}}, error.status)
    except (ConnectionError, asyncio.CancelledError):
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _json({"error": {"message": INTERNAL_ERROR}}, 500)
