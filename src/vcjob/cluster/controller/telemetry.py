"""`Telemetry`: what the controller reports for metrics.

`process.metrics` implements it; without it, `Silent` ignores everything. The controller must not know how metrics are
kept or served. An implementation is called on the event loop, and must neither block nor raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Telemetry(Protocol):
    """What the controller reports. Called on the event loop; must not block or raise.

    `process.metrics.Metrics` implements it. All calls come from the leader, except `leads`.
    """

    def count_phases(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Register the function that counts the Jobs in each phase, until this replica leads no more. It may be called
        on any thread."""

    def leads(self, leading: bool) -> None:
        """Whether this replica holds the Lease."""

    def phase_changed(self, phase: str) -> None:
        """A Job entered this phase, its first one included."""

    def reconciled(self, seconds: float, failed: bool) -> None:
        """One reconcile of one Job."""

    def waited(self, seconds: float) -> None:
        """A Job waited in the queue for this long."""

    def queue_length(self, length: int) -> None: ...

    def all_pods(self, seconds: float) -> None:
        """All first pods of a Job exist, this long after the Job was created."""

    def restarted(self, cause: str) -> None:
        """Pods were replaced or restarted, and why."""


class Silent:
    """A Telemetry that ignores everything.

    Used by a controller that is started without metrics.
    """

    def count_phases(self, count: Callable[[], Mapping[str, int]]) -> None:
        pass

    def leads(self, leading: bool) -> None:
        pass

    def phase_changed(self, phase: str) -> None:
        pass

    def reconciled(self, seconds: float, failed: bool) -> None:
        pass

    def waited(self, seconds: float) -> None:
        pass

    def queue_length(self, length: int) -> None:
        pass

    def all_pods(self, seconds: float) -> None:
        pass

    def restarted(self, cause: str) -> None:
        pass
