"""Step and loss of rank 0 over time, for the charts of the job page.

`History` follows the log of rank 0 (or of the only pod) without a thread of its own: `poll` takes what has arrived.
It keeps a bounded number of points, evenly thinned out, however long the job runs.
"""

from __future__ import annotations

import time
from typing import TypeAlias

from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.progress import ProgressPoint, TimedLine, point_of
from vcjob.sdk.handle import Handle, LogSteps

#: [time, step, loss]
Point: TypeAlias = tuple[float, int | None, float | None]

MAX_POINTS = 400
#: Lines that are read at the start, and pieces of the log that one call reads.
_TAIL, _PIECES = 20_000, 20


class History:
    """The points of one job. Used by one stream, in one thread; `close` it at the end."""

    def __init__(self) -> None:
        self._steps: LogSteps | None = None
        self._points: list[Point] = []
        self._last: Point | None = None
        self._every = self._seen = 0
        self._own = self._ended = False

    def poll(self, job: Handle, ranks: set[int | None]) -> None:
        """Read what rank 0 has printed since the last call; `ranks` are those of the pods that exist."""
        if self._steps is None and not self._ended:
            if 0 not in ranks and job.replicas != 1:
                return  # there is no rank 0, and of several pods none stands for the job
            chosen = LogFilter(ranks=(0,)) if 0 in ranks else LogFilter()
            self._steps = job.log_chunks(chosen, follow=True, tail=_TAIL, timestamps=True)
        for _ in range(_PIECES):
            step = None if self._steps is None else next(self._steps, None)
            if step is None:
                self._steps, self._ended = None, True
            if not isinstance(step, list):
                break
            for chunk in step:
                self._take(chunk)
        now = None if job.done else job.progress()
        if now is not None:  # a progress bar is one unfinished line, which the log does not return yet
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
