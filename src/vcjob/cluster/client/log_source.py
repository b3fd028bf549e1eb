"""What the two log readers share: which containers are chosen, the time of a line, and the queue to the caller.

Used by `container_log`, `log_reader` and `job_follower`.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache

from vcjob.cluster.client.pod_view import PodView
from vcjob.kube.api.client import LONGEST_LINE, Client
from vcjob.report.logs import Chunk, LogFilter, LogOrigin

#: A slow reader makes the cluster wait; memory does not grow.
_MOST_WAITING = 8 * 1024 * 1024
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")

Moment = tuple[int, int]  # epoch seconds, nanoseconds


class Source(LogOrigin, frozen=True, kw_only=True):
    """The log of one instance of a container.

    The pod's uid is part of it, because the next attempt of a pod has the same name.
    """

    pod: str
    uid: str

    @classmethod
    def of(cls, pod: PodView, container: str, restart: int) -> Source:
        return cls(
            pod=pod.name, uid=pod.uid, rank=pod.rank, task=pod.task, index=pod.index, attempt=pod.attempt,
            container=container, main=container == pod.own_container, restart=restart,
        )  # fmt: skip

    @property
    def who(self) -> str:
        rank = "" if self.rank is None else f"rank {self.rank} "
        return f"{rank}{self.task}-{self.index}{'' if self.main else f' ({self.container})'}"


def containers_of(pod: PodView, chosen: LogFilter) -> list[str]:
    """The chosen containers of a pod; by default the rank's own, without its sidecars."""
    if chosen.containers:
        return [name for name in pod.container_names if name in chosen.containers]
    steps = [step.name for step in pod.spec.init_containers if step.restart_policy != "Always"]
    return [*(steps if chosen.every_try else ()), pod.own_container]


class Sink:
    """A bounded queue of log lines and notes from the event loop to the caller's thread.

    Followers and readers put lines in, and wait while it is full; the SDK's thread takes them out.
    """

    def __init__(self, *, timestamps: bool = False) -> None:
        """timestamps: each chunk has the time at which its lines were written, so it is often a single line."""
        self._lock = threading.Lock()
        self._timestamps = timestamps
        self._lines: list[tuple[Source, float | None, bytes]] = []
        self._size = 0
        self._notes: list[str] = []
        self._woken = threading.Event()

    def put(self, source: Source, line: bytes, moment: Moment | None = None) -> None:
        written = moment[0] + moment[1] / 1e9 if moment and self._timestamps else None
        with self._lock:
            self._lines.append((source, written, line))
            self._size += len(line) + 100
        self.wake()

    @property
    def full(self) -> bool:
        return self._size > _MOST_WAITING

    async def add(self, source: Source, line: bytes, moment: Moment) -> None:
        """`put`, and wait while the caller is slower than the cluster."""
        self.put(source, line, moment)
        while self.full:  # noqa: ASYNC110 - emptied by another thread
            await asyncio.sleep(0.01)

    def note(self, text: str) -> None:
        with self._lock:
            self._notes.append(text)
        self.wake()

    def wake(self) -> None:
        if not self._woken.is_set():
            self._woken.set()

    def wait(self, seconds: float) -> None:
        """For the caller's thread: wait until there is something new."""
        self._woken.wait(seconds)

    def take(self) -> Iterator[Chunk]:
        """All new lines; consecutive lines of one source are one chunk."""
        with self._lock:
            lines, self._lines, self._size = self._lines, [], 0
            self._woken.clear()
        start = 0
        for place in range(1, len(lines) + 1):
            source, written, _ = lines[start]
            if place == len(lines) or lines[place][0] is not source or lines[place][1] != written:
                data = b"\n".join(line for _, _, line in lines[start:place]) + b"\n"
                yield Chunk(source, data, written)
                start = place

    def take_notes(self) -> list[str]:
        with self._lock:
            notes, self._notes = self._notes, []
        return notes


async def read_lines(
    client: Client,
    source: Source,
    namespace: str,
    sink: Sink,
    *,
    follow: bool = False,
    previous: bool = False,
    start: Moment | None = None,
    since: Moment | None = None,
    tail: int | None = None,
) -> AsyncGenerator[tuple[Moment, bytes], None]:
    """The lines of one log with their times, requested from `start` on; none is older than `since`.

    What the kubelet reports instead of a line becomes a note. A line of LONGEST_LINE or more comes in parts, each with
    the time of the line.
    """
    lines = client.logs(
        source.pod,
        namespace,
        container=source.container,
        follow=follow,
        previous=previous,
        since_time=None if start is None else since_time(start),
        tail=tail,
        timestamps=True,
    )
    continued: Moment | None = None  # the time of the line that the next part belongs to
    async with aclosing(lines):
        async for line in lines:
            stamped = split(line) if continued is None else (continued, line)
            ends = continued is not None and not line
            continued = stamped[0] if stamped and len(line) == LONGEST_LINE else None
            if ends:
                continue
            if stamped is None:
                sink.note(f"the kubelet reports about {source.who}: {line.decode(errors='replace')}")
            elif since is None or stamped[0] >= since:
                yield stamped


def split(line: bytes) -> tuple[Moment, bytes] | None:
    """The time of a line, and the line. None: it has no time, so the kubelet wrote it, not the container."""
    match = _STAMP.match(line)
    if match is None:
        return None
    seconds = _epoch(match[1], match[3])
    return (seconds, int(match[2].ljust(9, b"0")) if match[2] else 0), line[match.end() :]


def since_time(moment: Moment) -> str:
    """In the API's form: whole seconds, so lines of the same second that were already read come again."""
    from datetime import UTC

    return datetime.fromtimestamp(moment[0], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(epoch: float) -> Moment:
    return int(epoch), int(epoch % 1 * 1e9)


@lru_cache(maxsize=64)
def _epoch(head: bytes, zone: bytes) -> int:
    return int(datetime.fromisoformat((head + zone).decode()).timestamp())


class Watermark:
    """How far a log has been read, so that a second connection skips what was already read.

    A log can only be requested from a whole second on, so it counts the lines of exactly the newest time. Lines need not
    be in the order of their times: stdout and stderr are written side by side, and a clock may be set back. A line with
    an earlier time is known only until the first line with a later one, for lines come again in the order they had.
    """

    __slots__ = ("_behind", "_same", "_skip", "moment")

    def __init__(self, moment: Moment | None = None) -> None:
        self.moment = moment
        self._same = 0  # lines of exactly this time that were read
        self._skip = 0
        self._behind = False  # whether the lines may be those that were read

    def resume(self) -> None:
        """The log is read again from this second on."""
        self._skip, self._behind = self._same, True

    def takes(self, moment: Moment) -> bool:
        if self.moment is not None and moment <= self.moment:
            if moment < self.moment:
                return not self._behind
            if self._skip:
                self._skip -= 1
                return False
            self._same += 1
            return True
        self.moment, self._same, self._skip, self._behind = moment, 1, 0, False
        return True
