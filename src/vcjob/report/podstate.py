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

    #: Its exit code; 128 + N after signal N.
    exit_code: int
    #: Why it ended, in one word: Completed, Error, OOMKilled, ...
    reason: str
    #: When it ended.
    finished_at: float
    #: The number of the signal that ended it.
    signal: int | None = None
    #: More about the reason.
    message: str | None = None
    #: When it started.
    started_at: float | None = None
    #: It was ended from outside; its exit code does not count as a failure.
    stopped: bool = False


class ContainerState(msgspec.Struct, omit_defaults=True, rename="camel"):
    """One container of a pod: whether it runs, how often it was restarted, how it ended.

    Locally the pod's shim updates it; for a cluster it is derived from the kubelet's status, and has no pid.
    """

    #: The name of the container.
    name: str
    #: `init` runs before the others, `sidecar` is an init container that keeps running, `main` is any other.
    role: Role
    #: Local backend: its process while it runs.
    pid: int | None = None
    #: Local backend: when that process started, in the kernel's ticks; a pid alone may belong to another
    #: process by now.
    pid_start: int | None = None
    #: When it started.
    started_at: float | None = None
    #: Why it does not run yet or not any more: PodInitializing, CrashLoopBackOff, ...
    waiting: str | None = None
    #: More about why it does not run.
    waiting_message: str | None = None
    #: Whether it runs and its startup probe, if it has one, has succeeded.
    started: bool = False
    #: Local backend: whether it runs and its readiness probe, if it has one, succeeds.
    ready: bool = False
    #: How often it was restarted in this pod.
    restarts: int = 0
    #: How it ended.
    ended: Ended | None = None
    #: How its previous instance ended.
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

    #: The task that it belongs to.
    task: str
    #: Its index in the task.
    index: int
    #: The name of the pod.
    name: str
    #: The uid of the pod.
    uid: str
    #: The version of the Job when the pod was created: each restart of the whole Job raises it.
    version: int = 0
    #: Which attempt of this index it is, from 0.
    attempt: int = 0
    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None = None
    #: Whether that is a node rank: torchrun starts several ranks in the pod (`--nproc-per-node`).
    node_rank: bool = False
    #: The node of the cluster that it was placed on.
    node: str | None = None
    #: Its phase, as Kubernetes defines it.
    phase: Phase = "Pending"
    #: Why it has this phase, in one word.
    reason: str | None = None
    #: More about the reason.
    message: str | None = None
    #: When it was created. All times are in epoch seconds.
    created_at: float = 0.0
    #: When it began to run.
    started_at: float | None = None
    #: When it ended.
    finished_at: float | None = None
    #: Since when it is being ended.
    deleted_at: float | None = None
    #: On a cluster: whether it waits for a node.
    waits_for_node: bool = False
    #: On a cluster: since when it has a node.
    scheduled_at: float | None = None
    #: On a cluster: when its first image began to be pulled.
    pulling_at: float | None = None
    #: On a cluster: when its last image was pulled.
    pulled_at: float | None = None
    #: On a cluster: why it was or is being removed (EvictionByEvictionAPI, PreemptionByScheduler, ...).
    disruption: str | None = None
    #: On a cluster: more about why it was or is being removed.
    disruption_message: str | None = None
    #: On a cluster: its node does not respond.
    node_lost: bool = False
    #: Local backend: the process that runs the pod.
    shim: int | None = None
    #: Local backend: the GPUs that it holds.
    gpus: list[str] = []
    #: Local backend: what in its spec has another meaning here than on a cluster; each is shown once per job.
    notes: list[str] = []
    #: Local backend: how its ranks share the cores of this machine, where vcjob has decided that.
    cores_note: str | None = None
    #: Its containers; init containers come first.
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
