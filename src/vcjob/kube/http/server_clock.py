"""The cluster's time of day.

Timestamps of objects (when a Job was created, when a pod ended) come from the cluster's clocks. If this machine's
clock is far off, the API server's clock, whose time is in every response, is used instead: otherwise a clock that
jumps would end Jobs that have hours left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

#: Allowed difference of the two clocks: a response's date has whole seconds and is some time under way.
SLACK_SECONDS = 3.0


class ServerClock:
    """The transport reports the date of every response; callers read `now`. It never fails.

    Without a response so far, or with a clock that agrees, `now` is this machine's time.
    """

    def __init__(
        self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._date = self._parsed = b""
        self._noted_at = self._epoch = 0.0

    def note(self, date: bytes) -> None:
        """A response with this date was just received. Called for every one, so the date is parsed in `now`."""
        self._date, self._noted_at = date, self._steady()

    def now(self) -> float:
        """Seconds since the epoch."""
        wall = self._wall() if self._wall is not None else time.time()
        if self._date != self._parsed:
            self._parsed = self._date
            self._epoch = _epoch(self._date)
        if not self._epoch:
            return wall
        server = self._epoch + 0.5 + self._steady() - self._noted_at
        return wall if abs(server - wall) <= SLACK_SECONDS else server


def _epoch(date: bytes) -> float:
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp()
    except ValueError:
        return 0.0
