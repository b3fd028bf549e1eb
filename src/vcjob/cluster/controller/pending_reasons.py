"""Why pods of a Job do not run: read from the pods themselves, summed per Job."""

from __future__ import annotations

from vcjob.cluster.resources import ContainerStatus, PartialPod
from vcjob.lifecycle.observed import Blocked
from vcjob.plugins.wait import CONTAINER_NAME
from vcjob.wellknown import reasons

#: A scheduler looks at a pod within milliseconds, or at others before it: one that nobody has looked at while its
#: scheduler gave no sign of life for this long has none.
UNNOTICED_SECONDS = 10.0
#: A pod that has its node and starts nothing for this long is slow to start.
SLOW_SECONDS = 10.0

IMAGE, CONFIG, CRASH = reasons.IMAGE_PULL, reasons.CONTAINER_CONFIG, reasons.CRASH_LOOP
UNSCHEDULABLE, NO_SCHEDULER, GATED = (
    reasons.UNSCHEDULABLE,
    reasons.NO_SUCH_SCHEDULER,
    reasons.SCHEDULING_GATED,
)
INIT, STARTING = reasons.INIT_STEP, reasons.STARTING
#: What a user has to mend comes before what may pass by itself.
ORDER = (IMAGE, CONFIG, NO_SCHEDULER, UNSCHEDULABLE, GATED, CRASH, STARTING, INIT)

_IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed"}
)  # fmt: skip
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def cause_of(pod: PartialPod) -> Blocked | None:
    """Why this pod is not up; None where it is, or where nothing can be said.

    That no scheduler serves it, or that it is slow to start, is only a suspicion for some seconds (see
    `Causes.worst`).
    """
    status = pod.status
    if status.phase not in ("Pending", "Running") or pod.metadata.deletion_timestamp is not None:
        return None
    for container in (*status.init_container_statuses, *status.container_statuses):
        waiting = container.state.waiting
        if waiting is None:
            continue
        for reason, words in ((IMAGE, _IMAGE_REASONS), (CONFIG, _CONFIG_REASONS)):
            if waiting.reason in words:
                said = waiting.message or waiting.reason
                return Blocked(reason, f"container {container.name}: {waiting.reason}: {said}")
        if waiting.reason == "CrashLoopBackOff":
            return Blocked(CRASH, f"container {container.name} keeps failing{_last_words(container)}")
    if status.phase == "Running":
        return None
    return _not_placed(pod) or _init_step(pod) or _not_started(pod)


def _not_placed(pod: PartialPod) -> Blocked | None:
    if pod.spec.node_name:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            if condition.reason == reasons.SCHEDULING_GATED:
                return Blocked(GATED, condition.message or "its scheduling gates are still on")
            return Blocked(UNSCHEDULABLE, condition.message or "no node can take it")
    return Blocked(
        NO_SCHEDULER,
        f"no scheduler has looked at it for {UNNOTICED_SECONDS:.0f} s: does one named {_scheduler(pod)!r} run here?",
    )


def _init_step(pod: PartialPod) -> Blocked | None:
    for container in pod.status.init_container_statuses:
        if container.state.running is not None:
            doing = (
                "waits for the master's port"
                if container.name == CONTAINER_NAME
                else f"runs its init step {container.name}"
            )
            return Blocked(INIT, f"{doing}{_last_words(container)}")
        if container.state.terminated is not None and container.state.terminated.exit_code:
            return Blocked(INIT, f"its init step {container.name} failed{_last_words(container)}")
    return None


def _not_started(pod: PartialPod) -> Blocked | None:
    for container in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        for state in (container.state, container.last_state):
            if state.running is not None or state.terminated is not None:
                return None
    return Blocked(STARTING, f"nothing of it has started on node {pod.spec.node_name} yet")


def _last_words(container: ContainerStatus) -> str:
    """How the container ended the last time, in its own words where it left some."""
    ended = container.state.terminated or container.last_state.terminated
    if ended is None:
        return ""
    said = ended.message.strip().splitlines()
    return f" (last time: exit code {ended.exit_code}{', ' + said[-1] if said else ''})"


class Causes:
    """The causes of one Job's pods; a pod's change costs the same however many there are.

    `seen_at`: when each scheduler last looked at a pod of any Job; all Jobs share it."""

    __slots__ = ("_by_pod", "_by_reason", "_seen_at")

    def __init__(self, seen_at: dict[str, float] | None = None) -> None:
        self._by_pod: dict[str, str] = {}
        self._by_reason: dict[str, dict[str, tuple[float, str, str]]] = {}
        self._seen_at = {} if seen_at is None else seen_at

    def put(self, pod: PartialPod) -> bool:
        """Take in how a pod stands. False: nothing new."""
        meta, cause = pod.metadata, cause_of(pod)
        since, looked_at = _since(pod)
        if looked_at and since > self._seen_at.get(_scheduler(pod), 0.0):
            self._seen_at[_scheduler(pod)] = since
        if cause is None:
            return self.drop(meta.uid)
        if self._by_pod.get(meta.uid) != cause.reason:
            self.drop(meta.uid)
        self._by_pod[meta.uid] = cause.reason
        pods = self._by_reason.setdefault(cause.reason, {})
        told = since, f"{meta.name}: {cause.message}", _scheduler(pod)
        new = pods.get(meta.uid) != told
        pods[meta.uid] = told
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
        """The cause to be told first, in one pod's words and with how many share it; and the moment at which
        time alone may bring another one up."""
        reason, wake_at = self._first(now)
        if not reason:
            return None, wake_at
        pods = self._by_reason[reason]
        _, words, _ = next(iter(pods.values()))
        more = len(pods) - 1
        return Blocked(reason, f"{words} (and {more} more pods)" if more else words), wake_at

    def slow_starter(self, now: float) -> str | None:
        """The pod that `worst` tells of as slow to start, by uid."""
        reason, _ = self._first(now)
        return next(iter(self._by_reason[reason])) if reason == STARTING else None

    def _first(self, now: float) -> tuple[str, float | None]:
        wake_at = None
        for reason in ORDER:
            pods = self._by_reason.get(reason)
            if not pods:
                continue
            since, _, scheduler = next(iter(pods.values()))
            if reason == NO_SCHEDULER:
                since = max(since, self._seen_at.get(scheduler, 0.0))
            due = since + _SUSPICIONS.get(reason, 0.0)
            if now >= due:
                return reason, wake_at
            wake_at = due if wake_at is None else min(wake_at, due)
        return "", wake_at


#: What is told only when it lasts.
_SUSPICIONS = {NO_SCHEDULER: UNNOTICED_SECONDS, STARTING: SLOW_SECONDS}


def _since(pod: PartialPod) -> tuple[float, bool]:
    """When a scheduler last had something to say about the pod, and True; or when it was made."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.last_transition_time:
            # Gates are the API server's word.
            return condition.last_transition_time.timestamp(), condition.reason != reasons.SCHEDULING_GATED
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, False


def _scheduler(pod: PartialPod) -> str:
    return pod.spec.scheduler_name or "default-scheduler"
