"""Which objects (ConfigMaps, Services, PodGroups, ...) one Job owns, and which of them need a check.

The informers' handlers report every change, and `OwnedObjects` records its own writes. What the objects should be is
known to the plan only: this module compares versions, not content.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from vcjob.cluster.resources import PartialGroup, PartialOwned, PartialSpecced, controller_of
from vcjob.kube.api.objects import version_number
from vcjob.plan.names import pod_group_name, short_pod_group_name

ObjectKey: TypeAlias = tuple[str, str]  # kind, name

#: Kinds that are created before the pods, always owned by the Job, and watched.
_CREATED_BEFORE_PODS = frozenset({"ConfigMap", "Service", "NetworkPolicy", "PodGroup"})


class ObjectTracker:
    """The objects of one Job as last seen or written. The informers' handlers and `OwnedObjects` write here.

    Part of `JobState`. A report that is older than what is known is ignored, because our own writes may be newer than
    the watch.
    """

    __slots__ = ("creating", "dirty", "group", "grouped_tasks", "owned", "verified")

    def __init__(self) -> None:
        self.owned: dict[ObjectKey, PartialOwned] = {}
        #: The PodGroup among them that has the name of the Job's: a copy of it says nothing about the Job.
        self.group: PartialGroup | None = None
        #: Objects whose creation has no answer yet. The watch may show them first, and that is no change.
        self.creating: set[ObjectKey] = set()
        #: ConfigMaps whose content was compared, with the version that was compared.
        self.verified: dict[str, str] = {}
        #: Objects to check; "all" after a change of the Job.
        self.dirty: set[ObjectKey] | Literal["all"] = "all"
        #: The tasks that the PodGroup counts as far as we know.
        self.grouped_tasks: tuple[str, ...] | None = None

    @property
    def show_start(self) -> bool:
        """Whether these objects alone tell the next leader that the Job has started, without a status."""
        return any(kind in _CREATED_BEFORE_PODS for kind, _ in self.owned)

    def update(self, key: ObjectKey, found: PartialOwned) -> bool:
        """Keep an object as the server returned it. False: what we know is as new, for the watch can be faster."""
        known = self.owned.get(key)
        if known is not None and version_of(known) >= version_of(found):
            return False
        self.owned[key] = found
        if isinstance(found, PartialGroup) and (self.group is None or self.group is known):
            self.group = found if _has_name_of_group(found) else None
        return True

    def remove(self, key: ObjectKey, uid: str) -> None:
        known = self.owned.get(key)
        if known is not None and known.metadata.uid == uid:
            self.forget(key)
            self.verified.pop(key[1], None)
            self.mark_dirty(key)

    def forget(self, key: ObjectKey) -> None:
        """The object no longer exists."""
        if self.owned.pop(key) is self.group:
            groups = (found for found in self.owned.values() if isinstance(found, PartialGroup))
            self.group = next(filter(_has_name_of_group, groups), None)

    def mark_dirty(self, key: ObjectKey) -> None:
        if self.dirty != "all":
            self.dirty.add(key)


def _has_name_of_group(group: PartialGroup) -> bool:
    owner = controller_of(group.metadata.owner_references)
    return owner is not None and group.metadata.name in (pod_group_name(owner), short_pod_group_name(owner))


def content_of(found: PartialOwned) -> bytes:
    """What we would restore. For an object known by its metadata alone, any new version can be a new content."""
    return (
        bytes(found.spec) if isinstance(found, PartialSpecced) else found.metadata.resource_version.encode()
    )


def version_of(found: PartialOwned) -> int:
    return version_number(found.metadata.resource_version)
