"""Random spread and exponential back-off, so that many clients do not act at the same moment.

Used by the transport, watches, the lease and the work queue; it stands below all of them and imports nothing.
"""

from __future__ import annotations

import random


def jittered(seconds: float, low: float, high: float) -> float:
    """`seconds`, multiplied by a random number between `low` and `high`."""
    return seconds * random.uniform(low, high)  # noqa: S311 - predicting it reveals no secret


class Backoff:
    """Delays between attempts: they double from `first` to `longest`, each varied by the fraction `spread`.

    The caller counts the failures, so one instance serves any number of callers.
    """

    def __init__(self, first: float = 0.05, longest: float = 60.0, *, spread: float = 0.25) -> None:
        self._first = first
        self._longest = longest
        self._spread = spread

    def delay(self, failures: int) -> float:
        """Seconds to wait after this many failures before the latest one."""
        grown: float = min(self._longest, self._first * 2 ** min(failures, 32))
        return jittered(grown, 1 - self._spread, 1 + self._spread)
