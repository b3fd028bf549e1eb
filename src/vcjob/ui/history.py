"""Step and loss of rank 0 over time, for the charts of the job page.

`History` follows the log of rank 0 (or of the only pod) without a thread of its own: `poll` takes what has arrived.
It keeps a bounded number of points, evenly thinned out, however long the job runs.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from vcjob.errors import VcjobError
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.progress import ProgressPoint, TimedLine, point_of
from vcjob.sdk.handle import Handle
from vcjob.sdk.log_lines import LogSteps, chunks_of

#: [time, step, loss]
Point: TypeAlias = tuple[float, int | None, float | None]

MAX_POINTS = 400
#: Lines that are read at the start, and pieces of the log that one call reads.
_TAIL, _PIECES = 20_000, 20
#: The pause after a log could not be read.
_RETRY_SECONDS = 30.0


class History:
    """The points of one job. Used by one stream, in one thread; `close` it at the end."""

    def __init__(self, *, read_only: bool = False) -> None:
        self._read_only = read_only
        self._steps: LogSteps | None = None
        self._ended = False
        self._next_try = 0.0
        self._forget()

    def _forget(self) -> None:
        self._points: list[Point] = []
        self._last: Point | None = None
        self._every = self._seen = 0
        self._own = False

    def poll(self, job: Handle, ranks: set[int | None]) -> None:
        """Read what rank 0 has printed since the last call; `ranks` are those of the pods that exist.

        A log that cannot be read is tried again after a while: the rest of the page does not depend on it.
        """
        if self._steps is None and not self._ended and time.monotonic() >= self._next_try:
            chosen = _choice(job, ranks)
            if chosen is None:
                return
            self._forget()
            self._steps = job.log_chunks(
                chosen, follow=True, tail=_TAIL, timestamps=True, record_progress=not self._read_only
            )
        try:
            self._take_news()
        except VcjobError:
            self._steps, self._next_try = None, time.monotonic() + _RETRY_SECONDS
        self._take_current(job)

    def _take_news(self) -> None:
        for _ in range(_PIECES if self._steps else 0):
            step = None if self._steps is None else next(self._steps, None)
            if step is None:
                self._steps, self._ended = None, True
            if not isinstance(step, list):
                break
            for chunk in step:
                self._take(chunk)

    def read(self, job: Handle, ranks: set[int | None]) -> None:
        """Read all that rank 0 has printed so far; raises VcjobError where its log cannot be read."""
        chosen = _choice(job, ranks)
        if chosen is None:
            return
        for chunk in chunks_of(job.log_chunks(chosen, tail=_TAIL, timestamps=True)):
            self._take(chunk)
        self._take_current(job)

    def _take_current(self, job: Handle) -> None:
        """A progress bar is one unfinished line, which the log does not return yet."""
        now = None if job.done else job.progress()
        if now is not None:
            self.add(ProgressPoint(time.time(), now.step, now.loss, self._own))

    def _take(self, chunk: Chunk) -> None:
        if not chunk.origin.main:
            return
        received = chunk.received or time.time()
        for raw in chunk.data.replace(b"\r", b"\n").split(b"\n"):
            point = point_of(TimedLine(raw.decode(errors="replace"), received))
            if point is not None:
                self.add(point)

    def add(self, point: ProgressPoint) -> None:
        if point.own and not self._own:  # lines in vcjob's own form take precedence over all others
            self._own, self._points, self._every, self._seen = True, [], 0, 0
        if point.own != self._own or point.time is None:
            return
        now = (point.time, point.step, point.loss)
        if self._last is not None and self._last[1:] == now[1:]:
            return
        self._last = now
        if self._seen % (1 << self._every) == 0:
            self._points.append(now)
        self._seen += 1
        if len(self._points) >= MAX_POINTS:
            self._points = self._points[::2]
            self._every += 1

    def points(self) -> list[Point]:
        """At most MAX_POINTS points, oldest first; the newest is always among them."""
        if self._last is None or self._points[-1:] == [self._last]:
            return list(self._points)
        return [*self._points, self._last]

    def close(self) -> None:
        if self._steps is not None:
            self._steps.close()


def _choice(job: Handle, ranks: set[int | None]) -> LogFilter | None:
    """The log of rank 0. None where there is no rank 0, and of several pods none stands for the job."""
    if 0 in ranks:
        return LogFilter(ranks=(0,))
    return LogFilter() if job.replicas == 1 else None
