"""When the creation of a Job's objects and pods is tried again after the API server refused it.

Part of `JobState`. The reconciler records refusals here and creates nothing until the delay is over; a name that
becomes free ends the delay. The refusals themselves come from `api_refusals` and `name_conflicts`.
"""

from __future__ import annotations

import time

from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons

#: A refusal (a quota, a name in use) is retried after this long, doubled each time.
FIRST_RETRY_SECONDS, MOST_RETRY_SECONDS = 0.5, 15.0


class RetryState:
    """Why nothing can be created for one Job now, and when to try again. Only the reconciler and `OwnedObjects`
    write here; a name that becomes free ends the wait."""

    __slots__ = ("conflict", "count", "refusal", "retry_at")

    def __init__(self) -> None:
        #: Why the API server refuses pods, and why another object cannot be created.
        self.refusal: Blocked | None = None
        self.conflict: Blocked | None = None
        #: Nothing is created before this moment (monotonic).
        self.retry_at = 0.0
        self.count = 0

    @property
    def blocked(self) -> Blocked | None:
        return self.conflict or self.refusal

    @property
    def seconds_left(self) -> float:
        return self.retry_at - time.monotonic()

    def retry_now(self) -> None:
        self.retry_at = 0.0

    def record(self, refusal: Blocked | None, conflict: Blocked | None) -> float | None:
        """Record the result of an attempt. Returns the seconds until the next one; None if nothing was refused."""
        self.refusal, self.conflict = refusal, conflict
        if refusal is None and conflict is None:
            self.retry_at, self.count = 0.0, 0
            return None
        if reasons.CRD_NOT_READY in {blocked.reason for blocked in (refusal, conflict) if blocked}:
            self.count = 0  # this ends within seconds
        delay: float = min(MOST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(self.count, 8))
        self.count += 1
        self.retry_at = time.monotonic() + delay
        return delay
