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


class StatusThrottle:
    """A token bucket for counter-only writes. `delay`: seconds for which counters wait when nothing else happens.

    `StatusWriter` owns the only one; it knows neither Jobs nor the API, and only answers how long to wait.
    """

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._tokens = _WRITES_PER_SECOND
        self._filled_at = 0.0

    def seconds_left(self, unsaved: UnsavedCounters, now: float, *, busy: bool) -> float:
        """Seconds that the write should still wait; 0: write now, and a token is taken."""
        waited = now - unsaved.since
        factor = WAITING_FACTOR if unsaved.only_waits else BUSY_FACTOR if busy else 1
        if waited < self._delay * factor:
            return self._delay * factor - waited
        if waited < self._delay * BUSY_FACTOR and not self._take_token(now):
            return min(self._delay, self._delay * BUSY_FACTOR - waited)
        return 0.0

    def _take_token(self, now: float) -> bool:
        self._tokens = min(_WRITES_PER_SECOND, self._tokens + (now - self._filled_at) * _WRITES_PER_SECOND)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
