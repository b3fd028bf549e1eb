"""The objects that a Job owns in addition to its pods (ConfigMaps, Services, a PodGroup, ...).

They are created before the pods, and created or restored again when somebody deletes or changes them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, Outdated
from vcjob.cluster.controller.cache.object_tracker import ObjectKey, content_of, version_of
from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.cluster.controller.objects.concurrent_requests import for_each, gather_all
from vcjob.cluster.controller.objects.merge_patch import owned_patch
from vcjob.cluster.controller.objects.name_conflicts import is_owned, name_conflict
from vcjob.cluster.controller.offload import LARGE_PODS, LARGE_TASKS, Offload
from vcjob.cluster.resources import (
    PARTIAL_CLAIMS,
    PARTIAL_CONFIG_MAPS,
    PARTIAL_COSCHEDULING_GROUPS,
    PARTIAL_GROUPS,
    PARTIAL_POLICIES,
    PARTIAL_SERVICES,
    PartialOwned,
    PartialSpecced,
)
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Document, Resource, known
from vcjob.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons
from vcjob.wellknown.annotations import IF_ABSENT

RESOURCES: dict[tuple[str, str], Resource[Any]] = {
    (found.api_version, found.kind): found
    for found in (
        PARTIAL_CONFIG_MAPS,
        PARTIAL_SERVICES,
        PARTIAL_POLICIES,
        PARTIAL_GROUPS,
        PARTIAL_COSCHEDULING_GROUPS,
        PARTIAL_CLAIMS,
    )
}


class OwnedObjects:
    """Creates, restores and deletes the objects of Jobs for the reconciler. An object of another owner is never
    touched.

    What they should be comes from the plan. A refusal or a name in use is returned as a pending reason; other API
    errors are raised.
    """

    def __init__(self, client: Client, jobs: JobCache, offload: Offload) -> None:
        self._client = client
        self._jobs = jobs
        self._offload = offload
        #: Kinds of third-party plugins are discovered on first use; their objects are created, but not watched.
        self._resources: dict[tuple[str, str], Resource[Any]] = dict(RESOURCES)

    async def ensure(self, state: JobState, ready: tuple[str, ...]) -> Blocked | None:
        """Make all of them exist with the content that the Job asks for. The reason where one cannot."""
        objects = state.objects
        if objects.grouped_tasks != ready:
            group = objects.group
            objects.mark_dirty(("PodGroup", group.metadata.name if group else ""))
        if not objects.dirty:
            return state.retry.conflict
        if state.plan is None:
            raise Outdated  # the Job was deleted meanwhile
        dirty, objects.dirty = objects.dirty, set()
        kinds = None if dirty == "all" or state.retry.conflict else {kind for kind, _ in dirty}
        job = state.plan.job
        large = job.replicas >= LARGE_PODS or len(job.tasks) >= LARGE_TASKS
        try:
            wanted = await self._offload.run(large, state.plan.objects, ready=ready)
            results = await gather_all(
                self._ensure_one(state, obj) for obj in wanted if kinds is None or obj["kind"] in kinds
            )
        except BaseException:
            objects.dirty = "all"
            raise
        objects.grouped_tasks = ready
        state.retry.conflict = conflict = next((blocked for blocked in results if blocked is not None), None)
        if conflict:
            objects.dirty = "all"
        return conflict

    async def delete_group(self, state: JobState) -> None:
        """Delete the PodGroup of a Job that has ended, because it would keep its place in the queue. Users can create
        any number that name the Job as their owner."""
        resource = PARTIAL_COSCHEDULING_GROUPS if state.chosen_gang == "coscheduling" else PARTIAL_GROUPS

        async def delete(entry: tuple[ObjectKey, PartialOwned]) -> None:
            key, found = entry
            try:
                await self._client.delete(resource, key[1], state.namespace, uid=found.metadata.uid)
            except Conflict:
                return  # another one of that name
            state.objects.forget(key)
            state.objects.dirty = "all"

        groups = [
            (key, found)
            for key, found in state.objects.owned.items()
            if key[0] == "PodGroup" and not found.metadata.deletion_timestamp
        ]
        await for_each(groups, delete, len(groups))

    def deletable(self, state: JobState) -> list[tuple[Resource[Any], PartialOwned]]:
        """The objects of a deleted Job that can be deleted. Not claims: they hold users' data."""
        return [
            (resource, found)
            for (kind, _), found in state.objects.owned.items()
            for resource in RESOURCES.values()
            if resource.kind == kind
            and resource is not PARTIAL_CLAIMS
            and not found.metadata.deletion_timestamp
        ]

    async def delete_all(self, state: JobState) -> None:
        async def delete(entry: tuple[Resource[Any], PartialOwned]) -> None:
            resource, found = entry
            meta = found.metadata
            try:
                await self._client.delete(
                    resource, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except (Conflict, NotFound):
                pass  # changed or deleted meanwhile, or a PodGroup of the other API group

        found = self.deletable(state)
        await for_each(found, delete, len(found))

    async def _ensure_one(self, state: JobState, wanted: Document) -> Blocked | None:
        name = wanted["metadata"]["name"]
        try:
            resource = await self._resource(wanted)
            if resource is None:
                return Blocked(
                    reasons.UNKNOWN_KIND,
                    f"the Job needs {wanted['kind']} {name}, but the cluster does not serve this kind",
                )
            return await self._create_or_restore(state, resource, wanted, (wanted["kind"], name))
        except ApiError as error:
            if is_refusal(error):
                return refusal(error, f"{wanted['kind']} {name}")
            raise

    async def _resource(self, wanted: Document) -> Resource[Any] | None:
        key = (wanted["apiVersion"], wanted["kind"])
        if key not in self._resources:
            served = await self._client.discover(*key)
            if served is None:
                return None
            self._resources[key] = served.read_as(PartialOwned)
        return self._resources[key]

    async def _create_or_restore(
        self, state: JobState, resource: Resource[Any], wanted: Document, key: ObjectKey
    ) -> Blocked | None:
        kind, name = key
        mine: PartialOwned | None = state.objects.owned.get(key)
        if mine is None:
            state.objects.creating.add(key)
            try:
                created = await self._client.create(resource, wanted, state.namespace)
            except AlreadyExists:
                try:
                    existing: PartialOwned = await self._client.get(resource, name, state.namespace)
                except NotFound:
                    raise Conflict(
                        409, server_message=f"{kind} {name} is created and deleted repeatedly"
                    ) from None
                if not is_owned(existing.metadata.owner_references, state):
                    return self._name_conflict(state, wanted, existing)
                mine = existing
            else:
                mine = state.objects.owned.get(key)
                if mine is None or not _changed_since(mine, created):
                    state.objects.update(key, created)
                    state.objects.verified[name] = _verified_version(state, created)
                    return None
            finally:
                state.objects.creating.discard(key)
        if mine.metadata.deletion_timestamp:
            self._jobs.wait_for_name(state, kind, name)
            return Blocked(
                reasons.OBJECT_TERMINATING, f"{kind} {name} is being deleted; it will be created again"
            )
        state.objects.update(key, await self._restore(state, resource, mine, wanted))
        return None

    async def _restore(
        self, state: JobState, resource: Resource[Any], mine: PartialOwned, wanted: Document
    ) -> PartialOwned:
        """Undo what somebody changed in an object of the Job."""
        meta, verified = mine.metadata, state.objects.verified
        if isinstance(mine, PartialSpecced):
            patch = {"spec": owned_patch(msgspec.json.decode(mine.spec) or {}, wanted["spec"])}
        elif resource.kind == "ConfigMap":
            if verified.get(meta.name) == _verified_version(state, mine):
                return mine
            full = known("v1", "ConfigMap")
            assert full is not None
            current = await self._client.get(full, meta.name, state.namespace)
            patch = {"data": owned_patch(current.get("data") or {}, wanted["data"])}
        else:
            return mine  # claims cannot change
        if any(patch.values()):
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            mine = await self._client.patch(
                resource, meta.name, {"metadata": guard, **patch}, state.namespace
            )
        verified[meta.name] = _verified_version(state, mine)
        return mine

    def _name_conflict(self, state: JobState, wanted: Document, found: PartialOwned) -> Blocked | None:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        if (wanted["metadata"].get("annotations") or {}).get(IF_ABSENT) == "true":
            return None  # the existing one serves the purpose
        self._jobs.wait_for_name(state, kind, name)
        return name_conflict(found.metadata.owner_references, state, f"{kind} {name}")


def _changed_since(seen: PartialOwned, created: PartialOwned) -> bool:
    """Whether the watch has shown a change of the object before the answer to its creation."""
    return version_of(seen) > version_of(created) and content_of(seen) != content_of(created)


def _verified_version(state: JobState, found: PartialOwned) -> str:
    """The object's version and the Job's generation for which the content was compared."""
    return f"{found.metadata.resource_version}/{state.admitted_generation}"
