"""How often a page reads a cluster, whose API server serves many others: the slower it answers, the less often."""

from __future__ import annotations

import time

from vcjob.errors import BackendError
from vcjob.sdk.handle import EventsRead, Handle

#: A pause is so many times as long as the read before it, but not longer than this.
SHARE, LONGEST_PAUSE = 20, 30.0
#: How long the events of a job are kept: a cluster can only list those of the whole namespace.
EVENT_SECONDS = 10.0


def pause_after(seconds: float, least: float, backend: str) -> float:
    """The pause after a read that took so long. On this machine nobody else waits for the answer."""
    if backend != "cluster":
        return least
    return max(least, min(LONGEST_PAUSE, SHARE * seconds))


class KeptEvents:
    """The events of one job of a cluster, or why they cannot be read. Used by one stream, in one thread."""

    def __init__(self) -> None:
        self._found: EventsRead | None = None
        self._until = 0.0

    def kept(self) -> EventsRead | None:
        """None: it is time to read them again."""
        return self._found if time.monotonic() < self._until else None

    def keep(self, job: Handle) -> None:
        """Read them again if it is time; in the same `one_read` the job then has them."""
        if job.backend != "cluster" or self.kept() is not None:
            return
        try:
            self._found = job.events()
        except BackendError as error:
            self._found = error
        self._until = time.monotonic() + EVENT_SECONDS
