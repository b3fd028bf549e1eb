"""Deletes objects that outlive their Job.

The cluster's garbage collector deletes what a deleted Job owned. But if its watch breaks while a Job is deleted and
created again under the same name, it takes the new Job for a newer version of the old one and never deletes what the
old one owned: pods keep resources that nothing uses, and a Service blocks the new Job's. So objects that outlive their Job
for longer than the collector needs are deleted here.
"""

from __future__ import annotations

import logging
import time

from vcjob.cluster.controller.cache.command_tracker import is_for
from vcjob.cluster.controller.cache.informers import Caches
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, QueueKey
from vcjob.cluster.controller.objects.api_refusals import is_refusal
from vcjob.cluster.controller.objects.owned_objects import OwnedObjects
from vcjob.cluster.controller.objects.pod_control import PodControl
from vcjob.cluster.resources import COMMANDS, PARTIAL_JOBS, CommandMeta, PartialCommand, PartialJob
from vcjob.kube.api.client import Client
from vcjob.kube.controller.queue import WorkQueue
from vcjob.kube.errors import ApiError, Conflict, InvalidResponse, KubeError
from vcjob.spec.names import dns_subdomain

log = logging.getLogger(__name__)
#: How long the garbage collector gets first.
GRACE_SECONDS = 30.0
#: How long a Command waits for its Job, whose watch can be slower.
COMMAND_GRACE_SECONDS = 10.0


class Orphans:
    """Called by the reconciler for Jobs that no longer exist. API errors are raised and retried.

    It reads the Job from the server before it deletes anything, because the controller's view may be old, and it
    never deletes claims, which hold users' data.
    """

    def __init__(
        self,
        client: Client,
        jobs: JobCache,
        queue: WorkQueue[QueueKey],
        *,
        pod_control: PodControl,
        objects: OwnedObjects,
        caches: Caches,
    ) -> None:
        self._client = client
        self._jobs = jobs
        self._queue = queue
        self._pod_control = pod_control
        self._objects = objects
        self._caches = caches

    async def reconcile(self, state: JobState) -> None:
        """Delete what is left of a deleted Job once the grace period is over."""
        if not (state.observed.pods or self._objects.deletable(state)):
            return
        now = time.monotonic()
        if state.orphaned_since is None:
            state.orphaned_since = now
        wait = GRACE_SECONDS - (now - state.orphaned_since)
        if wait <= 0:
            state.orphaned_since, wait = now, GRACE_SECONDS
            found = await self._find(state)
            if found is not None:
                self._jobs.job_changed(found)
            else:
                log.warning(
                    "%s/%s no longer exists, but objects that it owned do: deleting them",
                    state.namespace,
                    state.name,
                    extra={"uid": state.uid},
                )
                pods = self._caches.pods.of(state.namespace)
                if await self._pod_control.delete_all(state, pods, ended=True):
                    await self._objects.delete_all(state)
                else:  # other Jobs first
                    state.orphaned_since, wait = now - GRACE_SECONDS, 0.0
        self._queue.add_after(state.key, wait)

    async def delete_commands(self) -> None:
        """Delete Commands whose Job does not exist, so that they never act on a later Job of the same name. One that
        the API server refuses to delete is left for the next time."""
        refused: list[tuple[CommandMeta, KubeError]] = []
        for command in self._jobs.unmatched.older_than(COMMAND_GRACE_SECONDS):
            try:
                await self._delete_command(command)
            except (ApiError, InvalidResponse) as error:
                if isinstance(error, ApiError) and not is_refusal(error):
                    raise
                refused.append((command.metadata, error))
        if refused:
            meta, why = refused[0]
            first = f"{meta.namespace}/{meta.name}"
            log.warning("cannot delete %d Commands without a Job; first %s: %s", len(refused), first, why)

    async def _delete_command(self, command: PartialCommand) -> None:
        target, meta = command.target, command.metadata
        assert target is not None
        if any(is_for(command, job) for job in await self._named(meta.namespace, target.name)):
            return  # the watch of Jobs will show it
        try:
            await self._client.delete(COMMANDS, meta.name, meta.namespace, uid=meta.uid)
        except Conflict:
            pass  # another one of that name
        self._jobs.unmatched.remove(command)
        log.warning(
            "deleted Command %s/%s: its Job %.253r does not exist", meta.namespace, meta.name, target.name
        )

    async def _find(self, state: JobState) -> PartialJob | None:
        found = await self._named(state.namespace, state.name)
        return next((job for job in found if job.metadata.uid == state.uid), None)

    async def _named(self, namespace: str, name: str) -> list[PartialJob]:
        """The Job of this name, which any user may have written and which a field selector may not accept. It is read
        from the server, because our view may be old; and by a list, which fails while a starting API server does not
        serve Jobs yet. A get of one Job would return 404 then."""
        if dns_subdomain(name) is not None:
            return []
        return await self._client.list(PARTIAL_JOBS, namespace, fields=f"metadata.name={name}")
