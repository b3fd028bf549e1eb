"""Pods as the command line shows them: task, index, rank, the rank's own container, and which instances have logs.

Decoded from the API's responses; everything else of a pod is left out. Used by the readers of `client` and the SDK.
"""

from __future__ import annotations

import msgspec

from vcjob.cluster.resources import ContainerStatus, PartialPod, PodMarks, PodMeta, PodSpec, controller_of
from vcjob.kube.api.resources import PODS
from vcjob.spec.scalars import natural
from vcjob.wellknown.environment import PET_NODE_RANK

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


class PodViewMarks(PodMarks, frozen=True, gc=False):
    own_container: str = msgspec.field(name=DEFAULT_CONTAINER, default="")


class PodViewMeta(PodMeta, rename="camel", gc=False):
    annotations: PodViewMarks = PodViewMarks()


class Variable(msgspec.Struct, gc=False):
    name: str = ""
    value: str = ""


class Container(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    env: tuple[Variable, ...] = ()
    #: "Always" on an init container makes it a sidecar.
    restart_policy: str = ""


class PodViewSpec(PodSpec, frozen=True, rename="camel", gc=False):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()


class PodView(PartialPod, gc=False):
    """One pod of a Job, with the fields of the controller's pods and those that only users see.

    The client's modules read pods into it, and the SDK makes its `PodState`s from it. What a pod lacks is empty,
    never an error.
    """

    metadata: PodViewMeta = msgspec.field(default_factory=PodViewMeta)
    spec: PodViewSpec = PodViewSpec()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def task(self) -> str:
        return self.metadata.annotations.task

    @property
    def index(self) -> int:
        return _number(self.metadata.annotations.index)

    @property
    def attempt(self) -> int:
        return _number(self.metadata.annotations.attempt)

    @property
    def version(self) -> int:
        return _number(self.metadata.annotations.version)

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def rank(self) -> int | None:
        """The rank that its program gets (RANK)."""
        for container in self.spec.containers:
            for variable in container.env:
                if variable.name == "RANK":
                    return natural(variable.value)
        return None

    @property
    def node_rank(self) -> bool:
        """Whether torchrun starts several ranks in it, so that its rank is that of a node."""
        names = (variable.name for container in self.spec.containers for variable in container.env)
        return PET_NODE_RANK in names

    @property
    def own_container(self) -> str:
        """The container that is the rank: the first, unless an annotation names another. Others are sidecars."""
        named = self.metadata.annotations.own_container
        names = [container.name for container in self.spec.containers]
        return named if named in names else names[0] if names else ""

    @property
    def container_names(self) -> list[str]:
        return [container.name for container in (*self.spec.init_containers, *self.spec.containers)]

    def container(self, name: str) -> ContainerStatus | None:
        for status in (*self.status.init_container_statuses, *self.status.container_statuses):
            if status.name == name:
                return status
        return None


POD_VIEWS = PODS.read_as(PodView)


def belongs_to(pod: PodView, uid: str) -> bool:
    """By the owner's uid: anybody can set labels."""
    owner = controller_of(pod.metadata.owner_references)
    return owner is not None and owner.uid == uid


def newest_instance(status: ContainerStatus | None) -> tuple[int, bool] | None:
    """The newest instance of a container with a log, and whether it has ended; None: none has started yet."""
    if status is None:
        return None
    if status.state.running is not None:
        return status.restart_count, False
    if status.state.terminated is not None or status.last_state.terminated is not None:
        return status.restart_count, True
    return None


def _number(text: str) -> int:
    return natural(text) or 0
