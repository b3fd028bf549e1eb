"""`PodFact` and `Failure`: what a backend reports about one pod, in a form that both backends share.

The controller and the supervisor translate their own pods into these; `Observed` collects them for the decisions.
They must hold nothing that only one backend has.
"""

from __future__ import annotations

from typing import Literal

import msgspec

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
FINISHED: frozenset[str] = frozenset({"Succeeded", "Failed"})


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How a pod's container failed: of all that failed, the first one, init containers included.

    The backends fill it in, and the status keeps that of the culprit. The fields are those of Kubernetes, so an exit
    code above 128 usually comes with a signal.
    """

    container: str = ""
    exit_code: int | None = None
    signal: int | None = None
    #: A reason as the kubelet gives it: Error, OOMKilled, Evicted, DeadlineExceeded, ...
    reason: str = ""
    message: str = ""
    init: bool = False
    at: float | None = None


class PodFact(msgspec.Struct, frozen=True, gc=False):
    """The present state of one pod. All times are epoch seconds.

    A backend makes a new one for every report about the pod; `Observed` keeps the latest one and corrects what
    contradicts earlier reports. It has no names or addresses: decisions need none.
    """

    task: str
    index: int
    uid: str
    attempt: int = 0
    version: int = 0
    phase: PodPhase = "Pending"
    #: Every container is ready (its readiness probe passes, where it has one).
    ready: bool = False
    #: Its deletion was requested (by anyone), and it still exists.
    terminating: bool = False
    created: float = 0.0
    #: When its deletion was requested if it is terminating, else when it entered its phase.
    since: float = 0.0
    #: When its first container started and when its last one ended, where they did.
    started: float | None = None
    finished: float | None = None
    #: Container restarts of this pod, summed over its containers, init included.
    restarts: int = 0
    #: The container that failed first; also set while the pod continues and restarts it.
    failure: Failure | None = None
    #: Ended from outside: DisruptionTarget, Evicted, preempted, node lost.
    evicted: bool = False

    @property
    def done(self) -> bool:
        return self.phase in FINISHED
