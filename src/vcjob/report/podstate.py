"""The state of a pod and its containers, in the same form for both backends.

On this machine a pod's shim writes it as JSON; for a cluster the SDK derives it from the pod. `status`, the diagnosis
and the lifecycle's pod facts are made from it. New fields need a default, because stored states of older versions
lack them.
"""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from vcjob.wellknown import reasons

Phase = Literal["Pending", "Running", "Succeeded", "Failed"]
Role = Literal["init", "sidecar", "main"]
#: The reason of a pod that exceeded the size of a volume, as a kubelet gives it.
EVICTED = "Evicted"
#: The reason of a container that exceeded its memory limit, as a kubelet gives it.
OOM_KILLED = "OOMKilled"


class Ended(msgspec.Struct, omit_defaults=True, rename="camel"):
    """How one run of a container ended. A death by signal N has exit code 128+N, as in Kubernetes.

    Part of `ContainerState`, which keeps the last two.
    """

    exit_code: int
    reason: str
    finished_at: float
    signal: int | None = None
    message: str | None = None
    started_at: float | None = None
    #: It was ended from outside; its exit code does not count as a failure.
    stopped: bool = False


class ContainerState(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One container of a pod: whether it runs, how often it was restarted, how it ended.

    Locally the pod's shim updates it; for a cluster it is derived from the kubelet's status, and has no pid.
    """

    name: str
    role: Role
    pid: int | None = None
    #: Start time in the kernel's ticks: a pid alone may belong to another process by now.
    pid_start: int | None = None
    started_at: float | None = None
    #: Why it does not run yet or not any more: PodInitializing, CrashLoopBackOff, ...
    waiting: str | None = None
    waiting_message: str | None = None
    started: bool = False
    ready: bool = False
    restarts: int = 0
    ended: Ended | None = None
    last: Ended | None = None

    @property
    def running(self) -> bool:
        return self.pid is not None

    @property
    def failure(self) -> Ended | None:
        """The end that counts as its failure: the last one, unless it was ended from outside; else the one before."""
        own = [end for end in (self.ended, self.last) if end is not None and end.exit_code != 0]
        return next((end for end in own if not end.stopped), own[0] if own else None)


class PodState(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One pod of a job, in the same form for both backends. Part of `Handle`'s interface.

    `Handle.pods` returns these. Fields that only one backend knows say so, and are empty for the other.
    """

    task: str
    index: int
    name: str
    uid: str
    version: int = 0
    attempt: int = 0
    rank: int | None = None
    #: The node of the cluster that it was placed on.
    node: str | None = None
    phase: Phase = "Pending"
    reason: str | None = None
    message: str | None = None
    created_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None
    #: Since when it is being ended.
    deleted_at: float | None = None
    #: On a cluster: whether it waits for a node, or since when it has one.
    waits_for_node: bool = False
    scheduled_at: float | None = None
    #: On a cluster: when its first image began to be pulled, and when its last one was pulled.
    pulling_at: float | None = None
    pulled_at: float | None = None
    #: On a cluster: why it was or is being removed (EvictionByEvictionAPI, PreemptionByScheduler, ...), and a message.
    disruption: str | None = None
    disruption_message: str | None = None
    #: On a cluster: its node does not respond.
    node_lost: bool = False
    shim: int | None = None
    gpus: list[str] = []
    #: What in its spec has another meaning here than on a cluster; each is shown once per job.
    notes: list[str] = []
    #: How its ranks share the cores of this machine, where vcjob has decided that.
    cores_note: str | None = None
    containers: list[ContainerState] = []

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def ready(self) -> bool:
        return self.phase == "Running" and all(c.ready for c in self.containers if c.role != "init")

    @property
    def restarts(self) -> int:
        return sum(container.restarts for container in self.containers)

    def first_failure(self) -> tuple[ContainerState, Ended] | None:
        """The container whose failing end came first, init containers included."""
        failures = [(container, ended) for container in self.containers if (ended := container.failure)]
        return min(failures, key=lambda failure: (failure[1].stopped, failure[1].finished_at), default=None)


def mark_lost(state: PodState, message: str) -> None:
    """Record that it ended without anybody having seen how."""
    now = time.time()
    for container in state.containers:
        if container.ended is None and container.started_at is not None:
            container.ended = Ended(
                137, "ContainerStatusUnknown", now, message=message, started_at=container.started_at
            )
        container.pid = container.pid_start = None
        container.ready = container.started = False
    state.phase, state.reason, state.message = "Failed", reasons.POD_LOST, message
    state.finished_at = now
