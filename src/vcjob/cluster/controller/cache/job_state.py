"""What the controller knows of one Job. All of it can be read again from the cluster."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from vcjob.cluster.controller.pending_reasons import Causes
from vcjob.cluster.controller.status.throttle import Unsaved
from vcjob.cluster.resources import PartialCommand, PartialGroup, PartialJob, PartialOwned, PartialPod
from vcjob.kube.api.objects import version_number
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.status import Status
from vcjob.plan.gang import GangName
from vcjob.plan.plan import Plan
from vcjob.spec.job import API_VERSION, KIND, Job

ObjectKey: TypeAlias = tuple[str, str]  # kind, name
JobKey: TypeAlias = tuple[str, str]  # namespace, uid

#: Kinds that are made before the pods, always the Job's own, and watched.
MARKS = frozenset({"ConfigMap", "Service", "NetworkPolicy", "PodGroup"})

#: The API server deletes in two steps, and may be stopped between them. Then nobody does the second but who asks again.
HALF_DELETED_SECONDS = 5.0


class JobState:
    __slots__ = (
        "admitted_generation", "causes", "chosen_gang", "commands", "conflict", "deleted", "departed", "dirty", "doubtful", "failing", "grouped_tasks", "half_deleted",
        "job", "key", "lean", "left_at", "name", "namespace", "observed", "owned", "plan", "recovered", "refusal", "refusals", "rested_generation", "retry_at", "saved", "start_asked", "start_words", "status", "told", "uid", "unsaved",
        "unseen", "unseen_version", "verified", "version",
    )  # fmt: skip

    def __init__(self, key: JobKey, name: str, schedulers_seen_at: dict[str, float] | None = None) -> None:
        #: What claims the Job's uid in another namespace is another's.
        self.key = key
        self.namespace, self.uid = key
        self.name = name
        #: The Job as last read or written, and its version as a number; None: only pods of it are known.
        self.lean: PartialJob | None = None
        self.version = 0
        #: What the Job asks for, of the generation that was admitted; made when needed.
        self.job: Job | None = None
        self.plan: Plan | None = None
        self.admitted_generation = -1
        #: The generation for which nothing was left to be done.
        self.rested_generation = -1
        self.chosen_gang: GangName = "none"
        #: As last decided, and as last written or read; None: not read yet.
        self.status: Status | None = None
        self.saved: Status | None = None
        #: Whether what an earlier controller may have done was thought of.
        self.recovered = False
        self.observed = Observed()
        self.causes = Causes(schedulers_seen_at)
        #: What the events say about a pod that is slow to start, by its uid, and when they were last asked for.
        self.start_words: tuple[str, Blocked] | None = None
        self.start_asked = float("-inf")
        #: Pods that we made and the cache has not shown yet, their names by uid, and the highest version among them.
        self.unseen: dict[str, str] = {}
        self.unseen_version = 0
        #: The Job was deleted a moment ago, and its pods still run.
        self.deleted = False
        #: Since when things are there whose Job is not.
        self.left_at: float | None = None
        #: Pods (task, index, attempt) that were asked for and may or may not have been made.
        self.doubtful: set[tuple[str, int, int]] = set()
        #: Pods that are gone, but whose end is not written down yet.
        self.departed: list[str] = []
        #: Objects that are ours, by kind and name; ConfigMaps whose content was looked at, with their version.
        self.owned: dict[ObjectKey, PartialOwned] = {}
        self.verified: dict[str, str] = {}
        #: Objects that need a look; "all" after a change of the Job.
        self.dirty: set[ObjectKey] | Literal["all"] = "all"
        #: The tasks that the PodGroup counts as far as we know.
        self.grouped_tasks: tuple[str, ...] | None = None
        #: Pods whose deletion is decided but not done, by uid: their names, and since when (monotonic).
        self.half_deleted: dict[str, tuple[str, float]] = {}
        #: Pods that were told to fail.
        self.failing: set[str] = set()
        #: The Command objects, by uid.
        self.commands: dict[str, PartialCommand] = {}
        #: Why the API server refuses pods, and why an object cannot be made; not tried again before `retry_at`.
        self.refusal: Blocked | None = None
        self.conflict: Blocked | None = None
        self.retry_at = 0.0
        self.refusals = 0
        #: Where the status as decided differs from the one written in counters alone.
        self.unsaved: Unsaved | None = None
        #: Events told lately, so that none is repeated.
        self.told: dict[str, float] = {}

    @property
    def group(self) -> PartialGroup | None:
        for (kind, _), found in self.owned.items():
            if kind == "PodGroup" and isinstance(found, PartialGroup):
                return found
        return None

    @property
    def begun(self) -> bool:
        """Whether the cluster has a status of it."""
        return self.saved is not None and self.saved.state.since is not None

    @property
    def has_marks(self) -> bool:
        """Whether there are objects of it by which one who takes over sees, without a status, that it has begun."""
        return any(kind in MARKS for kind, _ in self.owned)

    @property
    def empty(self) -> bool:
        """Nothing of the Job is left in the cluster."""
        return self.lean is None and not self.observed.pods and not self.owned

    def take(self, lean: PartialJob, *, even_if_older: bool = False) -> bool:
        """A Job as the server gave it. False: we know a newer one, our own last write."""
        version = version_number(lean.metadata.resource_version)
        if version == self.version and self.lean is not None:
            self.lean = lean  # what we wrote, as the cache keeps it: one copy is enough
        if version <= self.version and not even_if_older:
            return False
        if self.lean is None or self.lean.metadata.generation != lean.metadata.generation:
            self.dirty = "all"
        if self.lean is None or bytes(self.lean.status) != bytes(lean.status):
            self.status = self.saved = None
        self.lean, self.version, self.left_at = lean, version, None
        return True

    def lose(self) -> None:
        """The server does not know the Job. Should it have been mistaken, any sight of the Job brings it back."""
        self.lean, self.version = None, 0

    def wrote(self, lean: PartialJob, status: Status) -> None:
        """Our own write of the status came back. Where the watch was faster, what it brought may be newer."""
        self.take(lean)
        if self.version == version_number(lean.metadata.resource_version):
            self.status = self.saved = status
        self.unsaved = None

    def document(self) -> dict[str, Any]:
        """The Job as a document: what a user wrote and what identifies it."""
        assert self.lean is not None
        meta = self.lean.metadata
        fields = {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "labels": meta.labels,
            "annotations": meta.annotations,
            "creationTimestamp": meta.creation_timestamp,
            "generation": meta.generation,
            "deletionTimestamp": meta.deletion_timestamp,
        }
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {key: value for key, value in fields.items() if value is not None},
            "spec": msgspec.json.decode(self.lean.spec) or {},
        }

    def status_document(self) -> dict[str, Any]:
        assert self.lean is not None
        return msgspec.json.decode(self.lean.status) or {}

    def made(self, pod: PartialPod) -> None:
        """A pod of ours that the cache may not show yet."""
        self.unseen[pod.metadata.uid] = pod.metadata.name
        self.unseen_version = max(self.unseen_version, version_number(pod.metadata.resource_version))

    def forget_pod(self, uid: str) -> None:
        self.observed.drop(uid)
        self.causes.drop(uid)
        self.unseen.pop(uid, None)
        self.half_deleted.pop(uid, None)
        self.failing.discard(uid)

    def forget(self, departed: list[str]) -> bool:
        """Forget pods whose end is written down: the first of those that departed."""
        self.departed = self.departed[len(departed) :]
        for uid in departed:
            self.forget_pod(uid)
        return bool(departed)

    def own(self, key: ObjectKey, found: PartialOwned) -> None:
        """An object as it came back from a request of ours. Where the watch was faster, what it brought is newer."""
        known = self.owned.get(key)
        if known is None or version_of(known) < version_of(found):
            self.owned[key] = found

    def mark(self, key: ObjectKey) -> None:
        if self.dirty != "all":
            self.dirty.add(key)

    def release(self) -> None:
        """Nothing is to be done for this Job any more: keep what is cheap."""
        self.job = self.plan = None
        self.admitted_generation = -1
        self.rested_generation = self.lean.metadata.generation if self.lean else -1

    @property
    def at_rest(self) -> bool:
        """It is over, that is written down, and nothing has happened since that would change anything."""
        return (
            self.lean is not None
            and self.rested_generation == self.lean.metadata.generation
            and self.status is not None
            and self.status.over
            and self.unsaved is None
            and not (self.commands or self.departed or self.group or self.observed.live)
        )


def version_of(found: PartialOwned) -> int:
    return version_number(found.metadata.resource_version)
