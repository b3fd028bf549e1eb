"""Follows the log of one container through restarts of the container and lost connections.

`JobFollower` starts one per container. No line is lost or repeated after a lost connection (`Watermark`). The log of a
previous instance that cannot be read after several requests is left out with a note.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from vcjob.cluster.client.log_source import Moment, Sink, Source, Watermark, read_lines
from vcjob.cluster.client.pod_view import PodView, newest_instance
from vcjob.kube.api.client import Client
from vcjob.kube.errors import ApiError, BadRequest, Forbidden, KubeError, NotFound, Unauthorized

#: The status of a container is updated after the end of its log; if it is not, the log is requested again.
_STATUS_FOLLOWS = 3.0
_FIRST_DELAY, _MOST_DELAY = 0.2, 5.0
#: Requests for the log of a previous instance, which the server may never be able to answer.
_MOST_TRIES = 5


class Watched:
    """The latest state of a pod, with an event for its next change.

    `JobFollower` puts every report about the pod in; each `ContainerLog` of the pod waits for changes.
    """

    def __init__(self, pod: PodView) -> None:
        self.pod = pod
        self.gone = False
        self.changed = asyncio.Event()

    @property
    def over(self) -> bool:
        return self.gone or self.pod.finished

    def put(self, pod: PodView) -> None:
        self.pod = pod
        self._notify()

    def drop(self) -> None:
        self.gone = True
        self._notify()

    def _notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()


class ContainerLog:
    """`await run()`: puts the lines of one container into the sink until its pod has ended.

    `JobFollower` runs one for each chosen container. A connection that breaks off is opened again where it ended.
    Other errors become a note and are retried; only missing rights are raised.
    """

    def __init__(
        self,
        client: Client,
        watched: Watched,
        container: str,
        sink: Sink,
        *,
        first: int = 0,
        since: Moment | None = None,
        tail: int | None = None,
    ) -> None:
        """`first`: the instance of the container to begin with. `since` and `tail` limit the log that exists already."""
        self._client = client
        self._watched = watched
        self._container = container
        self._sink = sink
        self._next = first
        self._since = since
        self._tail = tail
        self._mark = Watermark()
        self._error_noted = False

    async def run(self) -> None:
        delay, tries = _FIRST_DELAY, 0
        while True:
            changed = self._watched.changed
            newest = self._newest()
            if newest is None or newest < self._next:
                if self._watched.over:
                    return
                await changed.wait()
                continue
            if newest > self._next:
                # It started and ended unobserved. The kubelet keeps the log of one previous instance.
                complete = await self._read(newest - 1, previous=True)
                tries += 1
                if complete or tries == _MOST_TRIES:
                    self._next, tries = newest, 0
                    if not complete:
                        source = Source.of(self._watched.pod, self._container, newest - 1)
                        self._sink.note(f"the log of {source.who} before its restart could not be read")
            else:
                complete = await self._read(newest)
                if complete and self._has_ended(newest):
                    self._next = newest + 1
                elif complete:
                    await _within(changed, _STATUS_FOLLOWS)
            if complete:
                delay = _FIRST_DELAY
            elif self._watched.gone:
                return  # another pod may have its name by now
            else:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _MOST_DELAY)

    def _newest(self) -> int | None:
        found = newest_instance(self._watched.pod.container(self._container))
        return None if found is None else found[0]

    def _has_ended(self, number: int) -> bool:
        found = newest_instance(self._watched.pod.container(self._container))
        return self._watched.over or found is None or found[0] > number or found[1]

    async def _read(self, number: int, *, previous: bool = False) -> bool:
        """Read the log of one instance to its end. False: it was interrupted, or cannot be read yet."""
        pod = self._watched.pod
        source = Source.of(pod, self._container, number)
        begun = self._mark.moment is not None
        start = self._mark.moment or self._since
        self._mark.resume()
        lines = read_lines(
            self._client,
            source,
            pod.metadata.namespace,
            self._sink,
            follow=not previous,
            previous=previous,
            start=start,
            since=self._since,
            tail=None if begun else self._tail,
        )
        try:
            async with aclosing(lines):
                async for moment, text in lines:
                    if self._mark.takes(moment):
                        await self._sink.add(source, text, moment)
        except (Unauthorized, Forbidden):
            raise
        except (BadRequest, NotFound):
            return previous or self._watched.over  # not started yet, or deleted
        except KubeError as error:
            self._note_error(source, error)
            return False
        return True

    def _note_error(self, source: Source, error: KubeError) -> None:
        """Only once: a node that does not respond stays so for a while."""
        if not self._error_noted and isinstance(error, ApiError):
            self._error_noted = True
            self._sink.note(
                f"the log of {source.who} cannot be read at present: {error.server_message or error.message}"
            )


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
