"""The cluster's time of day.

What a cluster remembers (when a Job was made, when a pod ended) is by its own clocks. Where this machine's
clock is far off, the API server's, which comes with every answer, counts instead: else a clock that jumps
would end what has hours left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

#: By how much the two may differ: an answer's date has whole seconds, and was some time on its way.
SLACK_SECONDS = 3.0


class ServerClock:
    def __init__(
        self, wall: Callable[[], float] | None = None, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._date = self._read = b""
        self._heard = self._epoch = 0.0

    def note(self, date: bytes) -> None:
        """An answer has just come with this date. Called for every one, so it is read only when needed."""
        self._date, self._heard = date, self._steady()

    def now(self) -> float:
        """Seconds since the epoch."""
        wall = self._wall() if self._wall is not None else time.time()
        if self._date != self._read:
            self._read = self._date
            self._epoch = _epoch(self._date)
        if not self._epoch:
            return wall
        server = self._epoch + 0.5 + self._steady() - self._heard
        return wall if abs(server - wall) <= SLACK_SECONDS else server


def _epoch(date: bytes) -> float:
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp()
    except ValueError:
        return 0.0
