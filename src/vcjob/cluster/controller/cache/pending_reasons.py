"""Why the pods of a Job do not run: read from the pods themselves, counted per Job.

`PodTracker` records every pod in `PodCauses`, and `pending` asks for the worst cause; the SDK uses `node_lost`. It
sends no request: what only events explain is fetched by `pod_events`.
"""

from __future__ import annotations

import re

from vcjob.cluster.resources import ContainerStatus, PartialPod
from vcjob.lifecycle.observed import Blocked
from vcjob.plugins.wait import CONTAINER_NAME
from vcjob.wellknown import reasons

#: A scheduler handles a pod within milliseconds, or other pods before it. If it handled neither this pod nor any
#: other for this long, it does not run.
UNHANDLED_SECONDS = 10.0
#: A pod that has a node and starts no container for this long is slow to start.
SLOW_SECONDS = 10.0

IMAGE, CONFIG, CRASH = reasons.IMAGE_PULL, reasons.CONTAINER_CONFIG, reasons.CRASH_LOOP
UNSCHEDULABLE, NO_SCHEDULER, GATED = (
    reasons.UNSCHEDULABLE,
    reasons.NO_SUCH_SCHEDULER,
    reasons.SCHEDULING_GATED,
)
INIT, STARTING = reasons.INIT_STEP, reasons.STARTING
#: Pods of a gang that only wait for others of it, as Volcano marks them: also reported as Unschedulable, but what keeps the
#: others from a node says more.
_OF_GANG = "Unschedulable for others"
_MARKS_OF_GANG = frozenset({"Schedulable", "Undetermined"})
#: What a user has to fix comes before what may pass without help.
ORDER = (
    IMAGE, CONFIG, NO_SCHEDULER, reasons.VOLUME, UNSCHEDULABLE, _OF_GANG, GATED, CRASH, reasons.NODE_LOST, STARTING, INIT,
)  # fmt: skip
#: What the scheduler says about a claim that does not exist or is not bound.
_CLAIM = re.compile("persistentvolumeclaim", re.IGNORECASE)

_IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed"}
)  # fmt: skip
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def cause_of(pod: PartialPod) -> Blocked | None:
    """Why this pod does not run; None if it does, or if nothing is known.

    That no scheduler serves it, or that it is slow to start, is reported only after some seconds (see
    `PodCauses.worst`).
    """
    status = pod.status
    if node_lost(pod):
        return Blocked(reasons.NODE_LOST, f"its node {pod.spec.node_name} does not respond")
    if status.phase not in ("Pending", "Running") or pod.metadata.deletion_timestamp is not None:
        return None
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is None:
            continue
        for reason, known in ((IMAGE, _IMAGE_REASONS), (CONFIG, _CONFIG_REASONS)):
            if waiting.reason in known:
                detail = waiting.message or waiting.reason
                return Blocked(reason, f"container {container.name}: {waiting.reason}: {detail}")
        if waiting.reason == "CrashLoopBackOff":
            return Blocked(CRASH, f"container {container.name} keeps failing{_last_exit(container)}")
    if status.phase == "Running":
        return None
    return _not_placed(pod) or _init_step(pod) or _not_started(pod)


def node_lost(pod: PartialPod) -> bool:
    """Whether the control plane marked the pod as not ready although its kubelet reported all containers as ready:
    it does so when it has not heard from the node for a while."""
    ready = {each.type: each for each in pod.status.conditions if each.type in ("Ready", "ContainersReady")}
    if pod.status.phase != "Running" or len(ready) < 2:
        return False
    marked = ready["Ready"].status == "False" and ready["Ready"].reason != "ReadinessGatesNotReady"
    return marked and ready["ContainersReady"].status == "True"


def _not_placed(pod: PartialPod) -> Blocked | None:
    if pod.spec.node_name:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            if condition.reason == reasons.SCHEDULING_GATED:
                return Blocked(GATED, condition.message or "its scheduling gates are still set")
            reason = reasons.VOLUME if _CLAIM.search(condition.message) else UNSCHEDULABLE
            return Blocked(reason, condition.message or "no node fits")
    return Blocked(
        NO_SCHEDULER,
        f"no scheduler has handled it for {UNHANDLED_SECONDS:.0f} s: is a scheduler named {_scheduler(pod)!r} running?",
    )


def _waits_for_others(pod: PartialPod) -> bool:
    """Whether the scheduler would place the pod if there were room for others of its gang."""
    return any(
        each.type == "PodScheduled" and each.reason in _MARKS_OF_GANG for each in pod.status.conditions
    )


def _init_step(pod: PartialPod) -> Blocked | None:
    for container in pod.status.init_container_statuses:
        if container.state.running is not None:
            doing = (
                "waits for the master's port"
                if container.name == CONTAINER_NAME
                else f"runs its init container {container.name}"
            )
            return Blocked(INIT, f"{doing}{_last_exit(container)}")
        if container.state.terminated is not None and container.state.terminated.exit_code:
            return Blocked(INIT, f"its init container {container.name} failed{_last_exit(container)}")
    return None


def _not_started(pod: PartialPod) -> Blocked | None:
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for state in (container.state, container.last_state):
            if state.running is not None or state.terminated is not None:
                return None
    return Blocked(STARTING, f"no container has started on node {pod.spec.node_name} yet")


def _last_exit(container: ContainerStatus) -> str:
    """How the container ended the last time, with its own message if it left one."""
    ended = container.state.terminated or container.last_state.terminated
    if ended is None:
        return ""
    lines = ended.message.strip().splitlines()
    return f" (last exit code {ended.exit_code}{', ' + lines[-1] if lines else ''})"


class PodCauses:
    """Why each pod of one Job does not run; a change of a pod costs the same however many there are.

    `seen_at`: when each scheduler last handled a pod of any Job; all Jobs share it."""

    __slots__ = ("_by_pod", "_by_reason", "_seen_at")

    def __init__(self, seen_at: dict[str, float] | None = None) -> None:
        self._by_pod: dict[str, str] = {}
        self._by_reason: dict[str, dict[str, tuple[float, str, str]]] = {}
        self._seen_at = {} if seen_at is None else seen_at

    def put(self, pod: PartialPod) -> bool:
        """Record a pod. False: nothing new."""
        meta, cause = pod.metadata, cause_of(pod)
        since, handled = _since(pod)
        if handled and since > self._seen_at.get(_scheduler(pod), 0.0):
            self._seen_at[_scheduler(pod)] = since
        if cause is None:
            return self.drop(meta.uid)
        reason = _OF_GANG if cause.reason == UNSCHEDULABLE and _waits_for_others(pod) else cause.reason
        if self._by_pod.get(meta.uid) != reason:
            self.drop(meta.uid)
        self._by_pod[meta.uid] = reason
        pods = self._by_reason.setdefault(reason, {})
        found = since, f"{meta.name}: {cause.message}", _scheduler(pod)
        new = pods.get(meta.uid) != found
        pods[meta.uid] = found
        return new

    def drop(self, uid: str) -> bool:
        reason = self._by_pod.pop(uid, None)
        if reason is None:
            return False
        pods = self._by_reason[reason]
        del pods[uid]
        if not pods:
            del self._by_reason[reason]
        return True

    def worst(self, now: float) -> tuple[Blocked | None, float | None]:
        """The cause to report, with the message of one pod and the number of pods that share it; and when time alone
        may make another cause due."""
        reason, wake_at = self._first(now)
        if not reason:
            return None, wake_at
        pods = self._by_reason[reason]
        _, message, _ = next(iter(pods.values()))
        more = len(pods) - 1
        if reason == UNSCHEDULABLE:
            more += len(self._by_reason.get(_OF_GANG, ()))
        reason = UNSCHEDULABLE if reason == _OF_GANG else reason
        others = f" (and {more} more {'pod' if more == 1 else 'pods'})" if more else ""
        return Blocked(reason, f"{message}{others}"), wake_at

    def slow_starter(self, now: float) -> str | None:
        """The uid of the pod that `worst` reports as slow to start."""
        reason, _ = self._first(now)
        return next(iter(self._by_reason[reason])) if reason == STARTING else None

    def _first(self, now: float) -> tuple[str, float | None]:
        wake_at = None
        for reason in ORDER if self._by_reason else ():
            pods = self._by_reason.get(reason)
            if not pods:
                continue
            since, _, scheduler = next(iter(pods.values()))
            if reason == NO_SCHEDULER:
                since = max(since, self._seen_at.get(scheduler, 0.0))
            due = since + _REPORT_AFTER.get(reason, 0.0)
            if now >= due:
                return reason, wake_at
            wake_at = due if wake_at is None else min(wake_at, due)
        return "", wake_at


#: Reported only if it lasts.
_REPORT_AFTER = {NO_SCHEDULER: UNHANDLED_SECONDS, STARTING: SLOW_SECONDS}


def _since(pod: PartialPod) -> tuple[float, bool]:
    """When a scheduler last handled the pod, and True; or when the pod was created, and False."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.last_transition_time:
            # The API server itself sets the condition of a gated pod.
            return condition.last_transition_time.timestamp(), condition.reason != reasons.SCHEDULING_GATED
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, False


def _scheduler(pod: PartialPod) -> str:
    return pod.spec.scheduler_name or "default-scheduler"
