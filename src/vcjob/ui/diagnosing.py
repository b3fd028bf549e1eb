"""The findings of one job while a page shows it. Each stream holds one `Diagnosis`; exported pages use one too.

A diagnosis costs a cluster several requests, and the search for hangs there runs a program in the pods of all ranks.
So findings are kept while nothing changes, and hangs are searched at a low rate. Raises what the handle raises.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation
from vcjob.diagnosis.report import failure_report
from vcjob.sdk.handle import Handle

#: How long findings are kept while nothing changes: of a job that runs or waits, and of one that is over.
KEPT_SECONDS, KEPT_OVER_SECONDS = 5.0, 60.0
#: The least and the longest time between two searches for hangs; at most a twentieth of the time is spent on them.
SEARCH_PAUSE, LONGEST_PAUSE = 15.0, 120.0


class Diagnosis:
    """Used by one stream, in one thread. Without `hangs` no program is run in pods: then a hang is not found there."""

    def __init__(self, *, hangs: bool = True) -> None:
        self._hangs = hangs
        self._basis: object = None
        self._found: dict[str, Any] = {}
        self._until = self._next_search = 0.0
        self._last: list[Finding] | None = None
        #: Why hangs cannot be found; empty if they can.
        self.unread = ""

    def read(self, job: Handle, basis: object) -> dict[str, Any]:
        """The findings, as `vcjob why -o json` prints them, and the failure report of a job that did not complete.

        `basis` is what the page shows besides: while it stays the same, the findings are not read again for a while.
        """
        now = time.monotonic()
        if self._found and basis == self._basis and now < self._until:
            return self._found
        observation = job.observe()
        if self._hangs:
            self._add_hangs(job, observation)
        running = observation.phase in ("Completed", "Running", "Pending")
        report = None if running else failure_report(observation)
        self._found = {
            "failure": msgspec.to_builtins(report) if report and report.culprit else None,
            "findings": msgspec.to_builtins(diagnose(observation)),
        }
        self._basis = basis
        self._until = now + (KEPT_OVER_SECONDS if job.done else KEPT_SECONDS)
        return self._found

    def _add_hangs(self, job: Handle, observation: Observation) -> None:
        if observation.phase != "Running":
            self._last, self.unread = None, ""
            return
        began = time.monotonic()
        if began >= self._next_search:
            self._last = job.find_hangs(observation)
            self.unread = job.unread()
            ended = time.monotonic()
            self._next_search = ended + min(LONGEST_PAUSE, max(SEARCH_PAUSE, 20 * (ended - began)))
        if self._last is not None:
            observation.hang_findings = self._last
