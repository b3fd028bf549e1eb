"""When a Job's status is written: at once where it matters; what only counts waits a moment for company."""

from __future__ import annotations

import logging
import time
from contextlib import suppress

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobKey, JobState
from vcjob.cluster.controller.status.patch import Outdated, is_urgent, only_begun, only_waits, write_status
from vcjob.cluster.controller.status.throttle import StatusThrottle, Unsaved
from vcjob.cluster.controller.telemetry import Telemetry
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.kube.errors import KubeError
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import DeleteCommand, DeleteJob, KillPods

log = logging.getLogger(__name__)


class StatusWriter:
    """`delay`: seconds for which counters wait where nothing else goes on."""

    def __init__(
        self, client: Client, board: JobCache, queue: WorkQueue[JobKey], telemetry: Telemetry, delay: float
    ) -> None:
        self._client = client
        self._board = board
        self._queue = queue
        self._telemetry = telemetry
        self._patience = StatusThrottle(delay)

    async def settle(self, entry: JobState, decision: Decision) -> None:
        """Take the decided status as the Job's, and write it unless it can wait."""
        old, new = entry.saved, decision.status
        assert old is not None
        # Kept in memory at once: what was seen is not forgotten because it is not written yet.
        entry.status = new
        if new == old and entry.begun:
            entry.unsaved = None
            return
        hard = any(isinstance(step, KillPods | DeleteCommand | DeleteJob) for step in decision.steps)
        urgent = is_urgent(old, new) if entry.begun else not only_begun(new)
        if not (hard or entry.departed or urgent):
            now = time.monotonic()
            waits = only_waits(old, new)
            if entry.unsaved is None or (entry.unsaved.only_waits and not waits):
                entry.unsaved = Unsaved(now, waits)
            # While other Jobs wait to be looked at, theirs are the requests that matter.
            left = self._patience.left(entry.unsaved, now, rush=len(self._queue) > 0)
            if left > 0:
                self._queue.add_after(entry.key, left)
                return
        await self.write(entry, new)

    async def write(self, entry: JobState, new: Status) -> None:
        old, first = entry.saved, not entry.begun
        assert old is not None
        await write_status(self._client, entry, new)
        if first or old.phase is not new.phase:
            self._telemetry.phase_changed(new.phase)
            log.info(
                "%s/%s is %s: %s", entry.namespace, entry.name, new.phase, new.state.message,
                extra={"job": f"{entry.namespace}/{entry.name}", "uid": entry.uid},
            )  # fmt: skip
        for run in new.history[len(old.history) :]:
            self._telemetry.restarted(run.reason)

    async def write_what_waits(self) -> None:
        """Before a stop in good order: what waits for company would else wait for the next controller."""
        for entry in list(self._board):
            if entry.unsaved is not None and entry.lean is not None and entry.status is not None:
                with suppress(Outdated, KubeError):
                    await self.write(entry, entry.status)
