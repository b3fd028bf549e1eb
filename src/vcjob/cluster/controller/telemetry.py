"""What the controller tells whoever counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from vcjob.cluster.resources import PartialJob


class Telemetry(Protocol):
    def count_phases(self, count: Callable[[], Mapping[str, int]]) -> None:
        """Who knows how many Jobs are in which phase."""

    def leads(self, leading: bool) -> None:
        """Whether this replica holds the Lease."""

    def phase_changed(self, phase: str) -> None:
        """A Job has come to this phase, its first one included."""

    def reconciled(self, seconds: float, failed: bool) -> None:
        """One look at one Job."""

    def waited(self, seconds: float) -> None:
        """A Job stood in the queue for this long."""

    def queue_length(self, length: int) -> None: ...

    def all_pods(self, job: PartialJob | None) -> None:
        """Every pod of a Job is there."""

    def restarted(self, cause: str) -> None:
        """Pods were replaced or restarted, and why."""


class Silent:
    """Nobody counts."""

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

    def all_pods(self, job: PartialJob | None) -> None:
        pass

    def restarted(self, cause: str) -> None:
        pass
