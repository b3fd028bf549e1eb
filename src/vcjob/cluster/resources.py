"""The kinds that the controller reads, each with no more fields than it needs.

Every field of a pod that is kept costs memory ten thousand times. Parts of a Job that are only passed on stay bytes.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from vcjob.kube.api.objects import Meta, OwnerReference
from vcjob.kube.api.resources import (
    CONFIG_MAPS,
    LEASES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    PRIORITY_CLASSES,
    SERVICES,
    resource,
)
from vcjob.plan import names
from vcjob.wellknown.annotations import ATTEMPT

JOB_GROUP = "batch.volcano.sh"

_NOTHING = msgspec.Raw(b"null")


# Jobs


class JobMeta(Meta, rename="camel", gc=False):
    """The metadata of a Job that the controller reads."""

    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PartialJob(msgspec.Struct, gc=False):
    """A Job whose spec and status stay undecoded bytes until they are needed.

    The controller's informer reads Jobs into it, so that a Job which nobody reconciles costs little memory, and one
    with a damaged spec does not affect the others.
    """

    metadata: JobMeta = msgspec.field(default_factory=JobMeta)
    spec: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING

    def __post_init__(self) -> None:
        # Each is a view that would keep the whole message alive, with all that is not read.
        self.spec, self.status = self.spec.copy(), self.status.copy()


class CommandMeta(Meta, rename="camel", gc=False):
    """The metadata of a Command; its creation decides which Job it is for.

    The time is kept as text: it has whole seconds in UTC, and is only compared.
    """

    creation_timestamp: str | None = None


class PartialCommand(msgspec.Struct, gc=False):
    """A Command of Volcano's `bus` API: an action for one Job.

    Users and the SDK create them; `CommandTracker` gives them to the lifecycle. Any user may have written any text.
    """

    metadata: CommandMeta = msgspec.field(default_factory=CommandMeta)
    target: OwnerReference | None = None
    action: str = ""


# Pods


class PodMarks(msgspec.Struct, frozen=True, gc=False):
    """The annotations that identify which of the Job's pods it is.

    They are text that any user can change: `pod_facts` parses them, and ignores a pod whose marks make no sense.
    """

    task: str = msgspec.field(name=names.TASK_SPEC, default="")
    index: str = msgspec.field(name=names.TASK_INDEX, default="")
    attempt: str = msgspec.field(name=ATTEMPT, default="0")
    version: str = msgspec.field(name=names.JOB_VERSION, default="0")


class PodMeta(Meta, rename="camel", gc=False):
    """The metadata of a pod, with the annotations that identify it within its Job.

    The SDK's `PodView` extends it with what only users need.
    """

    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: tuple[OwnerReference, ...] = ()
    annotations: PodMarks = PodMarks()


class PodCondition(msgspec.Struct, rename="camel", gc=False):
    """One condition of a pod, as the kubelet or a scheduler wrote it.

    `pod_facts` and `pending_reasons` read it. What the server leaves out is empty.
    """

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Waiting(msgspec.Struct, gc=False):
    """A container that has not started, and why."""

    reason: str = ""
    message: str = ""


class Running(msgspec.Struct, rename="camel", gc=False):
    """A container that runs."""

    started_at: datetime | None = None


class Terminated(msgspec.Struct, rename="camel", gc=False):
    """How a container ended.

    The kubelet wrote it. The times are missing where the kubelet did not see the end.
    """

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(msgspec.Struct, frozen=True, gc=False):
    """At most one of the three is set."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel", gc=False):
    """A container of a pod: how it is now and how its previous instance ended.

    Facts, pending reasons and the SDK's pods are derived from it. The kubelet keeps one previous instance only.
    """

    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The fields of a pod spec that explain where and how the pod runs.

    Everything else of the spec is not decoded, because a controller keeps thousands of pods.
    """

    node_name: str = ""
    scheduler_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What the kubelet and the schedulers report about a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: tuple[PodCondition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class PartialPod(msgspec.Struct, gc=False):
    """A pod with the fields that the lifecycle and the pending reasons need.

    The controller's informer keeps all pods of Jobs in this form; `PodView` has more for the SDK.
    """

    metadata: PodMeta = msgspec.field(default_factory=PodMeta)
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


# Other objects that a Job owns


class OwnedMeta(Meta, rename="camel", gc=False):
    """The metadata of an object that a Job may own."""

    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] = ()


class PartialOwned(msgspec.Struct, gc=False):
    """An object known by its metadata alone: a ConfigMap, whose content may be large and not ours.

    A new version can be a new content: `OwnedObjects` then reads the object itself.
    """

    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)


class PartialSpecced(PartialOwned, gc=False):
    """An object whose spec is kept if a Job controls it, so that a change of it is seen without a request. The specs of
    all others in the cluster (Services, NetworkPolicies) could be of any number and size."""

    spec: msgspec.Raw = _NOTHING

    def __post_init__(self) -> None:
        self.spec = self.spec.copy() if controller_of(self.metadata.owner_references) else _NOTHING


class GroupCondition(msgspec.Struct, gc=False):
    """One condition of a PodGroup, whose message explains a wait."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class GroupStatus(msgspec.Struct, gc=False):
    """A PodGroup's phase as its scheduler wrote it."""

    phase: str = ""
    conditions: tuple[GroupCondition, ...] | None = ()


class PartialGroup(PartialSpecced, gc=False):
    """A PodGroup of Volcano or of the coscheduling plugin.

    The scheduler writes the status, which says why a gang waits; the spec is the controller's.
    """

    status: GroupStatus | None = None


class PartialPriority(msgspec.Struct, gc=False):
    """A PriorityClass and its value."""

    metadata: Meta = msgspec.field(default_factory=Meta)
    value: int = 0


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Who holds a Lease and when it was last renewed."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class PartialLease(msgspec.Struct, gc=False):
    """A Lease of Volcano, by which it is recognised as running.

    `Schedulers` watches these; the controller's own Lease is `kube.controller.lease`'s.
    """

    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: LeaseSpec = LeaseSpec()


JOBS = resource(JOB_GROUP, "v1alpha1", "jobs", "Job")
COMMANDS = resource("bus.volcano.sh", "v1alpha1", "commands", "Command")
POD_GROUPS = resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING_GROUPS = resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

PARTIAL_JOBS = JOBS.read_as(PartialJob)
PARTIAL_PODS = PODS.read_as(PartialPod)
PARTIAL_PRIORITIES = PRIORITY_CLASSES.read_as(PartialPriority)
PARTIAL_LEASES = LEASES.read_as(PartialLease)

PARTIAL_CONFIG_MAPS = CONFIG_MAPS.read_metadata_as(PartialOwned)
PARTIAL_CLAIMS = PERSISTENT_VOLUME_CLAIMS.read_metadata_as(PartialOwned)
PARTIAL_SERVICES = SERVICES.read_as(PartialSpecced)
PARTIAL_POLICIES = NETWORK_POLICIES.read_as(PartialSpecced)
PARTIAL_GROUPS = POD_GROUPS.read_as(PartialGroup)
PARTIAL_COSCHEDULING_GROUPS = COSCHEDULING_GROUPS.read_as(PartialGroup)


def epoch(at: datetime | None) -> float | None:
    return at.timestamp() if at is not None else None


def seconds_of(text: str) -> float:
    """A time as Kubernetes writes it, as epoch seconds. Raises ValueError for other text."""
    return datetime.fromisoformat(text).timestamp()


def controller_of(owners: tuple[OwnerReference, ...]) -> OwnerReference | None:
    """The owner that controls an object, if it is a Job."""
    for owner in owners:
        if owner.controller:
            return owner if owner.kind == "Job" and owner.api_version.startswith(f"{JOB_GROUP}/") else None
    return None
