"""The objects beside a Job's pods: made before them, healed when deleted or changed, never another's."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobState, ObjectKey
from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.cluster.controller.objects.merge_patch import owned_patch
from vcjob.cluster.resources import (
    PARTIAL_CLAIMS,
    PARTIAL_CONFIG_MAPS,
    PARTIAL_COSCHEDULING_GROUPS,
    PARTIAL_GROUPS,
    PARTIAL_POLICIES,
    PARTIAL_SERVICES,
    PartialOwned,
    PartialSpecced,
    controller_of,
)
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Document, Resource, known
from vcjob.kube.errors import AlreadyExists, ApiError, Conflict, NotFound
from vcjob.lifecycle.observed import Blocked
from vcjob.plugins.svc import IF_ABSENT
from vcjob.wellknown import reasons

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


class Objects:
    def __init__(self, client: Client, board: JobCache) -> None:
        self._client = client
        self._board = board
        #: Kinds of third-party plugins are found when first asked for; these are only made, not watched.
        self._resources: dict[tuple[str, str], Resource[Any]] = dict(RESOURCES)

    async def ensure(self, entry: JobState, ready: tuple[str, ...]) -> Blocked | None:
        """See to it that all of them are there and say what they should. A reason where one cannot be."""
        if entry.grouped_tasks != ready:
            group = entry.group
            entry.mark(("PodGroup", group.metadata.name if group else ""))
        if not entry.dirty:
            return entry.conflict
        assert entry.plan is not None
        dirty, entry.dirty = entry.dirty, set()
        kinds = None if dirty == "all" or entry.conflict else {kind for kind, _ in dirty}
        wanted = entry.plan.objects(ready=ready)
        try:
            found = await asyncio.gather(
                *(self._one(entry, obj) for obj in wanted if kinds is None or obj["kind"] in kinds)
            )
        except BaseException:
            entry.dirty = "all"
            raise
        entry.grouped_tasks = ready
        entry.conflict = next((blocked for blocked in found if blocked is not None), None)
        if entry.conflict:
            entry.dirty = "all"
        return entry.conflict

    async def drop_group(self, entry: JobState) -> None:
        """A PodGroup that nobody will fill holds its place in the queue: it goes when the Job has ended."""
        for (kind, name), found in list(entry.owned.items()):
            if kind != "PodGroup" or found.metadata.deletion_timestamp:
                continue
            resource = _resource_of(entry, kind)
            try:
                await self._client.delete(resource, name, entry.namespace, uid=found.metadata.uid)
            except Conflict:
                continue  # another one of that name
            del entry.owned[kind, name]
            entry.dirty = "all"

    def removable(self, entry: JobState) -> list[tuple[Resource[Any], PartialOwned]]:
        """What beside pods can be deleted for a Job that is gone. Not claims: they hold people's data."""
        return [
            (resource, found)
            for (kind, _), found in entry.owned.items()
            for resource in RESOURCES.values()
            if resource.kind == kind
            and resource is not PARTIAL_CLAIMS
            and not found.metadata.deletion_timestamp
        ]

    async def remove(self, entry: JobState) -> None:
        for resource, found in self.removable(entry):
            meta = found.metadata
            try:
                await self._client.delete(
                    resource, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except (Conflict, NotFound):
                continue  # changed or gone meanwhile, or a PodGroup of the other kind

    async def _one(self, entry: JobState, wanted: Document) -> Blocked | None:
        name = wanted["metadata"]["name"]
        try:
            resource = await self._resource(wanted)
            if resource is None:
                return Blocked(
                    "UnknownKind", f"{wanted['kind']} {name} is asked for, but no such kind is served"
                )
            return await self._make_or_mend(entry, resource, wanted, (wanted["kind"], name))
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

    async def _make_or_mend(
        self, entry: JobState, resource: Resource[Any], wanted: Document, key: ObjectKey
    ) -> Blocked | None:
        kind, name = key
        mine: PartialOwned | None = entry.owned.get(key)
        if mine is None:
            try:
                made = await self._client.create(resource, wanted, entry.namespace)
            except AlreadyExists:
                try:
                    made = await self._client.get(resource, name, entry.namespace)
                except NotFound:
                    raise Conflict(409, server_message=f"{kind} {name} comes and goes") from None
                if not _is_owned(made, entry):
                    return self._of_another(entry, wanted, made)
                mine = made
            else:
                entry.own(key, made)
                entry.verified[name] = _seal(entry, made)
                return None
        if mine.metadata.deletion_timestamp:
            self._board.wait_for(entry, kind, name)
            return Blocked(
                reasons.OBJECT_TERMINATING, f"{kind} {name} is being deleted; it is made anew when it is gone"
            )
        mended = await self._mend(entry, resource, mine, wanted)
        entry.own(key, mended)
        return None

    async def _mend(
        self, entry: JobState, resource: Resource[Any], mine: PartialOwned, wanted: Document
    ) -> PartialOwned:
        """Bring what a user or a bug changed back to what the Job says."""
        meta = mine.metadata
        if isinstance(mine, PartialSpecced):
            patch = {"spec": owned_patch(msgspec.json.decode(mine.spec) or {}, wanted["spec"])}
        elif resource.kind == "ConfigMap":
            if entry.verified.get(meta.name) == _seal(entry, mine):
                return mine
            full = known("v1", "ConfigMap")
            assert full is not None
            there = await self._client.get(full, meta.name, entry.namespace)
            patch = {"data": owned_patch(there.get("data") or {}, wanted["data"])}
        else:
            return mine  # claims cannot change
        if any(patch.values()):
            guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
            mine = await self._client.patch(
                resource, meta.name, {"metadata": guard, **patch}, entry.namespace
            )
        entry.verified[meta.name] = _seal(entry, mine)
        return mine

    def _of_another(self, entry: JobState, wanted: Document, found: PartialOwned) -> Blocked | None:
        kind, name = wanted["kind"], wanted["metadata"]["name"]
        if (wanted["metadata"].get("annotations") or {}).get(IF_ABSENT) == "true":
            return None  # it serves as well
        self._board.wait_for(entry, kind, name)
        owner = controller_of(found.metadata.owner_references)
        if owner is not None and owner.name == entry.name:
            return Blocked(
                reasons.PREVIOUS_JOB_TERMINATING, f"{kind} {name} is still there from the Job's earlier life"
            )
        return Blocked(
            reasons.NAME_CONFLICT,
            f"{kind} {name} exists and does not belong to this Job, so it is left alone; rename or delete it",
        )


def _resource_of(entry: JobState, kind: str) -> Resource[Any]:
    if kind == "PodGroup":
        return PARTIAL_COSCHEDULING_GROUPS if entry.chosen_gang == "coscheduling" else PARTIAL_GROUPS
    raise AssertionError(kind)


def _is_owned(found: PartialOwned, entry: JobState) -> bool:
    owner = controller_of(found.metadata.owner_references)
    return owner is not None and owner.uid == entry.uid


def _seal(entry: JobState, found: PartialOwned) -> str:
    """An object of this version says what this generation of the Job asks for."""
    return f"{found.metadata.resource_version}/{entry.admitted_generation}"
