"""The stream of a job's log: new lines, and a position from which a page that lost its connection continues.

Each line has the position at which it ends in its own log. A log is read again from a little before the newest time
that was sent, and lines up to the position that was reached are left out: by this module after a cluster did not
answer, and by the page after its connection broke. The time alone would not do: the clocks of nodes differ, and the
newest lines of a local log have their final time only later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, TypeAlias

from vcjob.errors import BackendError, Denied
from vcjob.report.logs import Chunk, LogFilter
from vcjob.sdk.backend import Backend
from vcjob.sdk.handle import Handle
from vcjob.ui.streams import TROUBLE_SECONDS, Produced

#: [rank, pod, container, stream, text, instance, where it ends in its log]; see `lines_of`.
Line: TypeAlias = list[Any]

#: Lines and characters in one message, and the longest line that is sent; the download has the whole line.
MAX_LINES, MAX_CHARACTERS, MAX_LINE = 1000, 2**20, 16 * 1024
#: Notes about logs that one stream sends.
MAX_NOTES = 20
#: Earlier lines that are sent when a log is opened, of all containers together, and the least of each.
MAX_EARLIER, MIN_EARLIER = 50_000, 20
#: How much earlier than the newest line a log is read again.
OVERLAP_SECONDS = 2.0
#: The logs of a cluster arrive one by one: before this time the newest line says nothing about the other logs.
SETTLE_SECONDS = 3.0
#: Behind so many bytes that arrived together others may wait, for a page that takes them slowly.
MANY_BYTES = 64 * 1024


def log_lines(
    backend: Backend,
    namespace: str,
    name: str,
    chosen: LogFilter,
    *,
    tail: int | None,
    since: float | None = None,
    read_only: bool = False,
) -> Iterator[Produced]:
    """New lines, and as "note" what the user should know about logs that are not shown, each sentence once.

    A backend that does not answer is "trouble"; the log then continues where it was. `since`: where a page continues.
    """

    def find() -> Handle:
        return backend.find(name, namespace)

    stream = _LogStream(find, chosen, tail=tail, since=since, read_only=read_only)
    while True:
        try:
            yield from stream.read()
            break
        except Denied:
            raise
        except BackendError as error:
            yield stream.interrupted(error)
            yield TROUBLE_SECONDS
    yield "end", {}


class _LogStream:
    """One log that is sent to one page. `read` it again after a BackendError."""

    def __init__(
        self,
        find: Callable[[], Handle],
        chosen: LogFilter,
        *,
        tail: int | None,
        since: float | None,
        read_only: bool,
    ) -> None:
        self._find = find
        self._chosen = chosen
        self._tail = tail
        self._since = since
        self._read_only = read_only
        self._place = Place(since)
        self._notes: dict[str, bool] = {}  # whether it was sent
        self._troubled = False
        #: The position that the page has; a log that is opened again continues there.
        self._sent: float | None = None

    def interrupted(self, error: BackendError) -> Produced:
        self._troubled = True
        return "trouble", {"message": error.message, "hint": error.hint}

    def read(self) -> Iterator[Produced]:
        job = self._find()
        self._place.reopen(job.uid)
        since = self._since if self._sent is None else self._sent
        share = None if self._tail is None else min(self._tail, share_of_each(job, self._chosen))
        settled = time.monotonic() + (SETTLE_SECONDS if job.backend == "cluster" else 0.0)
        resent: Counter[object] | None = None if since is None else Counter()
        # While a page was away, a container of this machine may have restarted; its log before that has an end too.
        again = since is not None and job.backend == "local" and not self._chosen.previous
        steps = job.log_chunks(
            self._chosen._replace(every_try=True) if again else self._chosen,
            follow=True,
            since=None if since is None else since - OVERLAP_SECONDS,
            tail=share,
            timestamps=True,
            on_note=self._note,
            record_progress=not self._read_only,
        )
        ready = job.backend != "cluster"
        for step in steps:
            if self._troubled:
                self._troubled = False
                yield "trouble", None
            late = time.monotonic() >= settled
            if isinstance(step, float):
                ready = ready or late
                if ready:
                    resent = None
                    yield from self._position()
                yield from self._news()
                yield step
                continue
            for message in messages_of(self._new_lines(step, job.uid, resent, share)):
                if ready:
                    self._sent = self._place.newest
                yield "lines", message, text_of(self._sent)
            ready = ready or (late and sum(len(chunk.data) for chunk in step) < MANY_BYTES)
            yield from self._news()
        yield from self._news()

    def _new_lines(
        self, chunks: list[Chunk], uid: str, resent: Counter[object] | None, share: int | None
    ) -> Iterator[Line]:
        for chunk in chunks:
            for line in lines_of(chunk, uid):
                if self._place.takes(line):
                    yield line
                if resent is not None:
                    resent[chunk.origin.task, chunk.origin.index, chunk.origin.container] += 1
            self._place.reached(chunk.received)
        if resent and share is not None and max(resent.values()) >= share:
            self._note(
                f"only the newest {share} lines of each rank were sent again; some between are left out"
            )

    def _position(self) -> Iterator[Produced]:
        """The position alone, where no line has carried it."""
        if self._place.newest is not None and self._place.newest != self._sent:
            self._sent = self._place.newest
            yield "position", {}, text_of(self._sent)

    def _note(self, text: str) -> None:
        if len(self._notes) < MAX_NOTES:
            self._notes.setdefault(text, False)

    def _news(self) -> Iterator[Produced]:
        for text in [text for text, sent in self._notes.items() if not sent]:
            self._notes[text] = True
            yield "note", {"message": text}


class Place:
    """How far a log has been sent: the newest time, and for each container where its last line ends.

    Several lines of a cluster's log may have the same time, so those at the last position are counted. A line may also
    have an earlier time than the one before it; it was sent before only if no later one has come since the reopening.
    """

    def __init__(self, newest: float | None = None) -> None:
        self.newest = newest
        self._uid = ""
        #: Position, lines there, those that come again, and whether earlier ones may be known.
        self._marks: dict[tuple[object, ...], list[int]] = {}

    def reopen(self, uid: str) -> None:
        """The log is read again, from any earlier line on; another `uid` is another run, all of whose lines are new."""
        if uid != self._uid:
            self._uid, self._marks = uid, {}
        for mark in self._marks.values():
            mark[2:] = mark[1], True

    def takes(self, line: Line) -> bool:
        """Whether a line was not sent before."""
        _, pod, container, stream, _, instance, at = line
        if at is None:
            return True
        mark = self._marks.setdefault((pod, container, stream, instance), [at, 0, 0, False])
        if at < mark[0]:
            return not mark[3]
        if at > mark[0]:
            mark[:] = at, 0, 0, False
        elif mark[2]:
            mark[2] -= 1
            return False
        mark[1] += 1
        return True

    def reached(self, moment: float | None) -> None:
        """A clock that is ahead must not make the log begin in the future when it is read again."""
        if moment is not None:
            self.newest = max(self.newest or 0.0, min(moment, time.time()))


def share_of_each(job: Handle, chosen: LogFilter) -> int:
    """How many earlier lines each of the chosen containers may send: a page keeps no more than MAX_EARLIER of all."""
    containers = {
        (pod.task, pod.index, container.name)
        for pod in job.pods()
        if chosen.takes(pod)
        for container in pod.containers
        if not chosen.containers or container.name in chosen.containers
    }
    return max(MIN_EARLIER, MAX_EARLIER // max(1, len(containers)))


def messages_of(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines in groups: a page reads and draws each message at once."""
    group: list[Line] = []
    characters = 0
    for line in lines:
        group.append(line)
        characters += len(line[4])
        if len(group) == MAX_LINES or characters >= MAX_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def lines_of(chunk: Chunk, uid: str = "") -> Iterator[Line]:
    """A progress bar is its last segment, a very long line is cut.

    The instance is the run, the attempt and the restart. A line's position is a number of bytes on this machine, and
    its time in microseconds on a cluster, where a line may have an earlier one than the line before it. None where
    neither is known.
    """
    of = chunk.origin
    pod, instance = f"{of.task}-{of.index}", f"{uid[:8]}.{of.attempt}.{of.restart}"
    at = None if chunk.received is None else int(chunk.received * 1e6)
    end = None if chunk.end is None else chunk.end - len(chunk.data)
    for raw in chunk.data.split(b"\n")[:-1]:
        if end is not None:
            end += len(raw) + 1
        text = raw.rstrip(b"\r").rsplit(b"\r", 1)[-1]
        cut = text[:MAX_LINE].decode(errors="replace")
        more = f" … ({len(text) - MAX_LINE} bytes more)" if len(text) > MAX_LINE else ""
        yield [of.rank, pod, of.container, of.stream, cut + more, instance, at if end is None else end]


def text_of(moment: float | None) -> str:
    """A position as text; empty where there is none yet. Rounded down, so that no line is left out."""
    if moment is None:
        return ""
    whole = datetime.fromtimestamp(int(moment), UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{int(moment % 1 * 1e6):06d}Z"


def moment_of(text: str) -> float:
    """The opposite of `text_of`; raises ValueError."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
