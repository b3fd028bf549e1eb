"""How long counters alone may wait before they are written: a moment, for company; longer where others come first."""

from __future__ import annotations

from typing import NamedTuple

#: By how much longer they wait in a rush, and that of waiting pods always: most will run in a moment.
IN_A_RUSH, WHILE_WAITING = 5, 20
#: So many a second, of all Jobs together, are worth a request each; beyond that is a rush.
_WRITES_A_SECOND = 10.0


class Unsaved(NamedTuple):
    """Counters that are not written yet: since when, and whether they count nothing but pods that wait to run."""

    since: float
    only_waits: bool


class StatusThrottle:
    """`delay`: seconds for which counters wait where nothing else goes on."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self._tokens = _WRITES_A_SECOND
        self._filled_at = 0.0

    def left(self, unsaved: Unsaved, now: float, *, rush: bool) -> float:
        """Seconds that it should still wait; 0: write it, and it counts as written."""
        waited = now - unsaved.since
        patience = WHILE_WAITING if unsaved.only_waits else IN_A_RUSH if rush else 1
        if waited < self._delay * patience:
            return self._delay * patience - waited
        if waited < self._delay * IN_A_RUSH and not self._take(now):
            return min(self._delay, self._delay * IN_A_RUSH - waited)
        return 0.0

    def _take(self, now: float) -> bool:
        self._tokens = min(_WRITES_A_SECOND, self._tokens + (now - self._filled_at) * _WRITES_A_SECOND)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True
