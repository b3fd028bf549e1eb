"""When and how a Job's status is written. Nothing else in the controller writes one.

Important changes are written at once, counter-only changes are batched. A write is a merge patch against the version
that the decision was based on; if the Job changed meanwhile, it is read again and `Outdated` is raised.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import Any

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import (
    JobState,
    Outdated,
    QueueKey,
    UnsavedCounters,
    status_document,
)
from vcjob.cluster.controller.objects.merge_patch import merge_patch
from vcjob.cluster.controller.offload import LARGE_WRITTEN_STATUS_BYTES, Offload
from vcjob.cluster.controller.status.changes import (
    is_urgent,
    new_history,
    only_started,
    only_waits,
    rejected_status,
)
from vcjob.cluster.controller.status.throttle import StatusThrottle
from vcjob.cluster.controller.telemetry import Telemetry
from vcjob.cluster.resources import PARTIAL_JOBS, PartialJob
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.kube.errors import Conflict, KubeError, NotFound
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import DeleteCommand, DeleteJob, KillPods

log = logging.getLogger(__name__)
_IRREVERSIBLE = (KillPods, DeleteCommand, DeleteJob)


class StatusWriter:
    """Writes statuses for the reconciler. `delay`: seconds for which counters wait when nothing else happens.

    The only place that writes one. Outdated if the Job has changed or is gone; other API errors are raised, and the
    decided status is kept in memory for the next attempt.
    """

    def __init__(
        self,
        client: Client,
        jobs: JobCache,
        queue: WorkQueue[QueueKey],
        *,
        telemetry: Telemetry,
        delay: float,
        offload: Offload,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._queue = queue
        self._telemetry = telemetry
        self._throttle = StatusThrottle(delay)
        self._offload = offload

    async def save(self, state: JobState, decision: Decision) -> None:
        """Make the decided status the Job's, and write it now unless it can be batched."""
        old, new = state.saved, decision.status
        if old is None:
            raise Outdated
        # Kept in memory at once: what was observed must not be forgotten because it is not written yet.
        state.status = new
        if new == old and state.has_status:
            state.unsaved = None
            return
        irreversible = any(isinstance(step, _IRREVERSIBLE) for step in decision.steps)
        urgent = is_urgent(old, new) if state.has_status else not only_started(new)
        if not (irreversible or state.pods.departed or urgent):
            now = time.monotonic()
            waits = only_waits(old, new)
            if state.unsaved is None or (state.unsaved.only_waits and not waits):
                state.unsaved = UnsavedCounters(now, waits)
            # While other Jobs wait in the queue, their requests go first.
            left = self._throttle.seconds_left(state.unsaved, now, busy=len(self._queue) > 0)
            if left > 0:
                self._queue.add_after(state.key, left)
                return
        await self.write(state, new)

    async def write(self, state: JobState, new: Status) -> None:
        """Write it now, or raise Outdated with the state brought up to date."""
        old, first = state.saved, not state.has_status
        if old is None or state.resource is None:
            raise Outdated
        await self._patch(state, new)
        if first or old.phase is not new.phase:
            self._telemetry.phase_changed(new.phase)
            log.info(
                "%s/%s is %s: %s", state.namespace, state.name, new.phase, new.state.message,
                extra={"job": f"{state.namespace}/{state.name}", "uid": state.uid},
            )  # fmt: skip
        for entry in new_history(old, new):
            self._telemetry.restarted(entry.reason)

    async def reject(self, state: JobState, status: Status, message: str, now: float) -> None:
        """Write that the Job is invalid and does not run."""
        await self.write(state, rejected_status(status, message, now))

    async def flush(self) -> None:
        """Before a graceful stop, write the batched counters, which would otherwise wait for the next leader."""
        for state in list(self._jobs):
            if state.unsaved is not None and state.resource is not None and state.status is not None:
                with suppress(Outdated, KubeError):
                    await self.write(state, state.status)

    async def _patch(self, state: JobState, status: Status) -> None:
        assert state.resource is not None
        meta = state.resource.metadata
        large = len(state.resource.status) >= LARGE_WRITTEN_STATUS_BYTES
        patch = await self._offload.run(large, _changes, state.resource, status)
        if not patch:
            state.status = state.saved = status
            state.unsaved = None
            return
        guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        state.writing = True
        try:
            resource = await self._client.patch(
                PARTIAL_JOBS,
                meta.name,
                {"metadata": guard, "status": patch},
                meta.namespace,
                subresource="status",
            )
            state.status_written(resource, status)
            if state.resource is None:
                raise Outdated  # deleted meanwhile
        except NotFound as error:
            state.lose()
            raise Outdated from error
        except Conflict as error:
            # What the watch has shown by now is older than what is read next.
            self._jobs.write_answered(state)
            await self._read_again(state)
            raise Outdated from error
        finally:
            self._jobs.write_answered(state)

    async def _read_again(self, state: JobState) -> None:
        """Read the Job from the server. It can be older than what we know (a restored backup), unless the watch
        brought something newer during this read."""
        before = state.version
        try:
            resource = await self._client.get(PARTIAL_JOBS, state.name, state.namespace)
        except NotFound:
            state.lose()
            return
        if state.resource is None:
            return  # the watch has shown its deletion; it will also show whether the Job was restored
        if resource.metadata.uid == state.uid:
            state.update(resource, even_if_older=state.version == before)
        else:
            state.lose()  # deleted, and another Job has its name now


def _changes(resource: PartialJob, status: Status) -> dict[str, Any]:
    return merge_patch(status_document(resource), status.to_kube())
