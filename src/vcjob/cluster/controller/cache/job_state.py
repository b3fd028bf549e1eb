"""What the controller knows about one Job. All of it can be read again from the cluster.

The informers' handlers (`JobCache`) and the reconciler share it on one event loop; nothing here makes a request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from vcjob.cluster.controller.cache.command_tracker import CommandTracker
from vcjob.cluster.controller.cache.object_tracker import ObjectTracker
from vcjob.cluster.controller.cache.pending_reasons import PodCauses
from vcjob.cluster.controller.cache.pod_tracker import PodTracker
from vcjob.cluster.controller.cache.retry_state import RetryState
from vcjob.cluster.resources import PartialJob
from vcjob.kube.api.codec import decode_nested_now
from vcjob.kube.api.objects import version_number
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.status import Status
from vcjob.plan.gang import GangName
from vcjob.plan.plan import Plan
from vcjob.spec.job import API_VERSION, KIND, Job

QueueKey: TypeAlias = tuple[str, str]  # namespace, uid


class Outdated(Exception):
    """The Job changed meanwhile: what was decided rests on an old view, so decide again.

    Raised by everything that writes for the reconciler, which then reconciles the Job again at once.
    """


class UnsavedCounters(NamedTuple):
    """Counters that are not written yet: since when (monotonic), and whether they count only pods that wait to run.

    The status writer keeps it in the JobState; the throttle decides how much longer they wait.
    """

    since: float
    only_waits: bool


class LogTail(NamedTuple):
    """The last lines of a failed pod, when the last traceback in them began, and the NetworkPolicies that deny all
    connections to its master."""

    lines: tuple[str, ...] = ()
    error_at: float | None = None
    blocked_by: tuple[str, ...] = ()


class PendingReason:
    """What events say about a pod that is slow to start, and when they were last fetched."""

    __slots__ = ("events_fetched_at", "start_failure")

    def __init__(self) -> None:
        #: The pod's uid and what its events say.
        self.start_failure: tuple[str, Blocked] | None = None
        self.events_fetched_at = float("-inf")


class JobState:
    """One Job by namespace and uid: the object, its plan, its status, and trackers for pods, objects and retries.

    `JobCache` makes it and fills it from the watches; the reconciler and what it calls read it and record their own
    writes. Only one worker uses it at a time. `current` raises Outdated if the Job is gone.
    """

    __slots__ = (  # noqa: RUF023 - in the order of __init__
        "key", "namespace", "uid", "name",
        "resource", "version", "job", "plan", "plan_generation", "admitted_generation", "before_change",
        "idle_generation", "chosen_gang",
        "status", "saved", "unsaved", "writing", "reported", "recovered", "start_measured",
        "deleted", "orphaned_since",
        "observed", "deferred", "decision_seconds", "pods", "commands", "objects", "retry", "pending",
        "log_tails", "recent_events",
    )  # fmt: skip

    def __init__(self, key: QueueKey, name: str, schedulers_seen_at: dict[str, float] | None = None) -> None:
        #: The namespace is part of the key: an object elsewhere that claims the Job's uid is not the Job's.
        self.key = key
        self.namespace, self.uid = key
        self.name = name
        #: The Job as last read or written, and its version as a number; None: only objects that it owns are known.
        self.resource: PartialJob | None = None
        self.version = 0
        #: What the Job asks for, of the generation that was admitted; built when needed.
        self.job: Job | None = None
        self.plan: Plan | None = None
        self.plan_generation = -1
        self.admitted_generation = -1
        #: The Job as it was admitted, where its decoded form was dropped and it was changed since.
        self.before_change: PartialJob | None = None
        #: The generation for which nothing was left to do.
        self.idle_generation = -1
        self.chosen_gang: GangName = "none"
        #: As last decided, and as last written or read; None: not read yet.
        self.status: Status | None = None
        self.saved: Status | None = None
        #: Set while the decided status differs from the written one in counters alone.
        self.unsaved: UnsavedCounters | None = None
        #: A status write has no answer yet; what the watch shows of the Job meanwhile is kept until then.
        self.writing = False
        self.reported: PartialJob | None = None
        #: Whether the unwritten actions of a previous leader were taken into account.
        self.recovered = False
        #: Whether the time to its first pods was reported.
        self.start_measured = False
        #: The Job was just deleted, and its pods still run.
        self.deleted = False
        #: Since when objects exist whose Job does not (monotonic).
        self.orphaned_since: float | None = None
        self.observed = Observed()
        #: Reports about pods that came while a thread decides on `observed`; None: no thread does.
        self.deferred: list[Callable[[], None]] | None = None
        #: The CPU time of the latest decisions: of the last one, or of a slower one not long ago.
        self.decision_seconds = 0.0
        self.pods = PodTracker(self.observed, PodCauses(schedulers_seen_at))
        self.commands = CommandTracker(self.observed)
        self.objects = ObjectTracker()
        self.retry = RetryState()
        self.pending = PendingReason()
        #: What was read of the logs of failed pods, by uid.
        self.log_tails: dict[str, LogTail] = {}
        #: The messages emitted lately and when, by reason, so that none is repeated; a few of each reason.
        self.recent_events: dict[str, dict[str, float]] = {}

    @property
    def has_status(self) -> bool:
        """Whether the cluster has a status of it."""
        return self.saved is not None and self.saved.state.since is not None

    @property
    def empty(self) -> bool:
        """Nothing of the Job is left in the cluster."""
        return self.resource is None and not self.observed.pods and not self.objects.owned

    @property
    def idle(self) -> bool:
        """It is over, that is written, and nothing has happened since that would change anything."""
        return (
            self.resource is not None
            and self.idle_generation == self.resource.metadata.generation
            and self.status is not None
            and self.status.over
            and self.unsaved is None
            and not (self.commands or self.pods.departed or self.objects.group or self.observed.live)
        )

    def current(self) -> tuple[Job, Status]:
        """The admitted Job and its status. Raises Outdated if the Job was deleted or somebody else changed its status
        meanwhile, which can happen during any request."""
        if self.job is None or self.status is None:
            raise Outdated
        return self.job, self.status

    def update(self, resource: PartialJob, *, even_if_older: bool = False) -> bool:
        """Take in the Job as the server returned it. False: what we know is as new, for example our own last write."""
        version = version_number(resource.metadata.resource_version)
        if version == self.version and self.resource is not None:
            self.resource = resource  # the informer's copy of what we wrote: one copy is enough
        if version <= self.version and not even_if_older:
            return False
        if self.resource is None or self.resource.metadata.generation != resource.metadata.generation:
            self.objects.dirty = "all"
            if self._is_dropped and self.before_change is None:
                self.before_change = self.resource
        if self.resource is None or bytes(self.resource.status) != bytes(resource.status):
            self.status = self.saved = None
        self.resource, self.version, self.orphaned_since = resource, version, None
        self.name = resource.metadata.name  # until now perhaps what a pod's owner reference says
        return True

    def lose(self) -> None:
        """The server does not know the Job. If that was a mistake, or the Job is restored from a backup, the next
        report of it is accepted whatever its version."""
        self.resource = self.reported = None
        self.version = 0

    def status_written(self, resource: PartialJob, status: Status) -> None:
        """Our write of the status came back. The watch can be faster: what it showed can be newer, or the Job's
        deletion."""
        if self.resource is None:
            self.unsaved = None
            return
        self.update(resource)
        if self.version == version_number(resource.metadata.resource_version):
            self.status = self.saved = status
        self.unsaved = None

    def release(self) -> None:
        """Nothing is left to do for this Job: drop what can be built again."""
        self.job = self.plan = self.before_change = None
        self.log_tails = {}
        self.admitted_generation = -1
        self.idle_generation = self.resource.metadata.generation if self.resource else -1

    @property
    def _is_dropped(self) -> bool:
        """Whether it was admitted and is not decoded at present."""
        return (
            self.job is None
            and self.resource is not None
            and self.admitted_generation == self.plan_generation == self.resource.metadata.generation
        )

    def drop_decoded(self) -> bool:
        """Free the memory of the decoded spec; it is decoded again when needed. False: it differs from what the cluster
        has, because an update was rejected, or it runs nothing."""
        current = self.resource is not None and self.plan_generation == self.resource.metadata.generation
        if self.plan is None or not current or self.admitted_generation != self.plan_generation:
            return False
        self.job = self.plan = None
        return True

    def document(self, of: PartialJob | None = None) -> dict[str, Any]:
        """The Job as a document, as it is or as it was: what a user wrote and what identifies it."""
        resource = of or self.resource
        assert resource is not None
        meta = resource.metadata
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
            "spec": decode_nested_now(msgspec.json.decode, bytes(resource.spec)) or {},
        }


def status_document(resource: PartialJob) -> dict[str, Any]:
    """The Job's status as a document, however deeply somebody has nested a field in it."""
    return decode_nested_now(msgspec.json.decode, bytes(resource.status)) or {}
