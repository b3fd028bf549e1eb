"""What is left of Jobs that are gone.

The cluster's garbage collector ends what a deleted Job owned. But where its watch breaks while a Job is deleted and
made anew under its name, it takes the new Job for the old one, changed, and never comes back to what the old one
owned: pods hold processors for nobody, and a Service stands in the new Job's way. So what outlives its Job for
longer than the collector needs is ended here.
"""

from __future__ import annotations

import logging
import time

from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobKey, JobState
from vcjob.cluster.controller.objects.owned_objects import Objects
from vcjob.cluster.controller.objects.pod_control import PodControl
from vcjob.cluster.resources import PARTIAL_JOBS, PartialJob
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue

log = logging.getLogger(__name__)
#: The garbage collector has its turn first.
PATIENCE = 30.0


class Orphans:
    def __init__(
        self,
        client: Client,
        board: JobCache,
        queue: WorkQueue[JobKey],
        *,
        executor: PodControl,
        objects: Objects,
        caches: Caches,
    ) -> None:
        self._client = client
        self._board = board
        self._queue = queue
        self._executor = executor
        self._objects = objects
        self._caches = caches

    async def see_to(self, entry: JobState) -> None:
        """Called whenever a Job that is gone is looked at, as long as something of it is there."""
        if not (entry.observed.pods or self._objects.removable(entry)):
            return
        now = time.monotonic()
        if entry.left_at is None:
            entry.left_at = now
        wait = entry.left_at + PATIENCE - now
        if wait <= 0:
            entry.left_at, wait = now, PATIENCE
            there = await self._find(entry)
            if there is not None:
                self._board.job_changed(there)
            else:
                log.warning(
                    "%s/%s is gone, and what it owned is still there: it is deleted now",
                    entry.namespace,
                    entry.name,
                    extra={"uid": entry.uid},
                )
                await self._executor.clear(entry, self._caches.pods.of(entry.namespace), ended=True)
                await self._objects.remove(entry)
        self._queue.add_after(entry.key, wait)

    async def _find(self, entry: JobState) -> PartialJob | None:
        """Asked of the server itself, for our own view may be behind; and by a list, which fails while an API server
        that comes up does not know Jobs yet. A single Job would seem to be gone then."""
        found = await self._client.list(PARTIAL_JOBS, entry.namespace, fields=f"metadata.name={entry.name}")
        return next((job for job in found if job.metadata.uid == entry.uid), None)
