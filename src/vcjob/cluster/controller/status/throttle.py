"""How long counter-only changes of a status are batched: a second by default, longer while other Jobs wait.

`StatusWriter` asks it before a write that only updates counters; writes that matter never wait. One instance serves
all Jobs, so it also bounds the number of such writes per second.
"""

from __future__ import annotations

from vcjob.cluster.controller.cache.job_state import UnsavedCounters

#: How many times longer counters wait while the queue is not empty, and while they count only waiting pods, most of
#: which will start soon.
BUSY_FACTOR, WAITING_FACTOR = 5, 20
#: Counter-only writes per second, for all Jobs together.
_WRITES_PER_SECOND = 10.0
#: A write that is due within this time is due: timers fire slightly early, and each check is a reconcile.
_EARLY_SECONDS = 0.02


class StatusThrottle:
    """A token bucket for counter-only writes. `delay`: seconds for which counters wait when nothing else happens.

    `StatusWriter` owns the only one; it knows neither Jobs nor the API, and only answers how long to wait.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._tokens = _WRITES_PER_SECOND
        self._filled_at = 0.0
        #: When the last of the writes that were put off for want of a token is checked again.
        self._next_check = 0.0

    def seconds_left(self, unsaved: UnsavedCounters, now: float, *, busy: bool) -> float:
        """Seconds that the write should still wait; 0: write now, and a token is taken."""
        waited = now - unsaved.since
        factor = WAITING_FACTOR if unsaved.only_waits else BUSY_FACTOR if busy else 1
        left = self._delay * factor - waited
        if left > _EARLY_SECONDS:
            return left
        most = self._delay * BUSY_FACTOR - waited
        if most > _EARLY_SECONDS and not self._take_token(now):
            return self._until_next_check(now, most)
        return 0.0

    def _until_next_check(self, now: float, most: float) -> float:
        """Writes without a token come back one after the other, as tokens become available, and not all at once."""
        at = max(self._next_check, now) + 1 / _WRITES_PER_SECOND
        if at - now >= most:
            return most
        self._next_check = at
        return at - now

    def _take_token(self, now: float) -> bool:
        self._tokens = min(_WRITES_PER_SECOND, self._tokens + (now - self._filled_at) * _WRITES_PER_SECOND)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
