"""Reads the existing logs of a Job once and merges their lines by time. For `vcjob logs` without -f.

The cluster handle runs a `LogReader` on the event loop; the lines go to a `Sink`, which the caller's thread reads. A
log that cannot be read becomes a note. UserError if there are too many logs, or none that fits the choice; API errors
as in `error_messages`.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator

from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient, JobKey
from vcjob.cluster.client.log_source import Moment, Sink, Source, containers_of, read_lines
from vcjob.cluster.client.pod_view import PodView, newest_instance
from vcjob.errors import UserError
from vcjob.kube.errors import ApiError, BadRequest, Forbidden, KubeError, NotFound, Unauthorized
from vcjob.report.logs import LogFilter

#: Each log is a connection to the API server, and from there to a node.
MOST_AT_ONCE = 500

_Line = tuple[Moment, bytes]


class LogReader:
    """`await run()`: puts the lines of all chosen logs into the sink, oldest first, and returns at their end.

    The cluster handle makes one for each call. Every log is a connection, so their number is bounded by a UserError.
    """

    def __init__(
        self,
        jobs: JobClient,
        key: JobKey,
        choice: LogFilter,
        sink: Sink,
        *,
        since: Moment | None,
        tail: int | None,
    ) -> None:
        self._jobs = jobs
        self._key = key
        self._choice = choice
        self._sink = sink
        self._since = since
        self._tail = tail

    async def run(self) -> None:
        """Merge by time: the next line is the oldest of the next lines of all logs."""
        sources = find_sources(await self._jobs.pods(self._key), self._choice)
        if len(sources) > MOST_AT_ONCE:
            raise UserError(
                f"these are {len(sources)} logs, and at most {MOST_AT_ONCE} can be read at the same time",
                hint="choose some with --rank or --task",
            )
        logs = [self._lines(source) for source in sources]
        try:
            with translate_api_errors(self._jobs.config, "read logs", self._key.namespace):
                firsts = await _first_lines(logs)
                heap = [(line[0], place, line[1]) for place, line in enumerate(firsts) if line is not None]
                heapq.heapify(heap)
                while heap:
                    moment, place, text = heap[0]
                    await self._sink.add(sources[place], text, moment)
                    following = await anext(logs[place], None)
                    if following is None:
                        heapq.heappop(heap)
                    else:
                        heapq.heapreplace(heap, (following[0], place, following[1]))
        finally:
            for log in logs:
                await log.aclose()

    async def _lines(self, source: Source) -> AsyncGenerator[_Line, None]:
        lines = read_lines(
            self._jobs.client,
            source,
            self._key.namespace,
            self._sink,
            previous=self._choice.previous,
            start=self._since,
            since=self._since,
            tail=self._tail,
        )
        try:
            async for line in lines:
                yield line
        except (Unauthorized, Forbidden):
            raise
        except (BadRequest, NotFound):
            pass  # just deleted, or not started yet
        except KubeError as error:
            reason = error.server_message if isinstance(error, ApiError) else ""
            self._sink.note(f"the log of {source.who} cannot be read: {reason or error.message}")
        finally:
            await lines.aclose()


async def _first_lines(logs: list[AsyncGenerator[_Line, None]]) -> list[_Line | None]:
    """The first line of every log. After an error no log is still being read: only then can it be closed."""
    tasks = [asyncio.ensure_future(anext(log, None)) for log in logs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def find_sources(pods: list[PodView], choice: LogFilter) -> list[Source]:
    """The chosen logs that exist, by rank, task and index."""
    chosen = [pod for pod in sorted(pods, key=_by_rank) if choice.takes(pod)]
    _check(pods, chosen, choice)
    found = []
    for pod in chosen:
        for container in containers_of(pod, choice):
            newest = newest_instance(pod.container(container))
            if newest is None:
                continue
            number = newest[0] - 1 if choice.previous else newest[0]
            if number >= 0:
                found.append(Source.of(pod, container, number))
    if choice.previous and chosen and not found:
        raise UserError(
            "no previous log: a cluster keeps the log of a container's previous instance only, and only while its pod exists",
            hint="follow a job from its start (`vcjob run`, `vcjob logs -f`) to see the logs of all instances",
        )
    return found


def _check(pods: list[PodView], chosen: list[PodView], choice: LogFilter) -> None:
    if choice.attempt is not None and pods and not chosen:
        there = sorted({pod.attempt for pod in pods if choice._replace(attempt=None).takes(pod)})
        if there and choice.attempt not in there:
            raise UserError(
                f"attempt {choice.attempt} has no logs: a cluster keeps logs only as long as the pod exists",
                hint=f"attempts with logs: {', '.join(map(str, there))}",
            )
    names = {name for pod in chosen for name in pod.container_names}
    for container in choice.containers:
        if chosen and container not in names:
            raise UserError(
                f"no pod of the job has a container {container!r}",
                hint=f"their containers are: {', '.join(sorted(names))}",
            )


def _by_rank(pod: PodView) -> tuple[bool, int, str, int]:
    return pod.rank is None, pod.rank or 0, pod.task, pod.index
