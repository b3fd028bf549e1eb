"""Why pods of a Job do not run: read from the pods themselves, summed per Job."""

from __future__ import annotations

from vcjob.cluster.kinds import ContainerStatus, LeanPod
from vcjob.lifecycle.observed import Blocked
from vcjob.plugins.wait import CONTAINER_NAME

#: A scheduler looks at a pod within milliseconds; one that nobody has looked at for this long has none.
UNNOTICED_SECONDS = 10.0

IMAGE, CONFIG, CRASH = "ImagePull", "ContainerConfig", "CrashLoop"
UNSCHEDULABLE, NO_SCHEDULER, GATED = "Unschedulable", "NoSuchScheduler", "SchedulingGated"
INIT = "InitStep"
#: What a user has to mend comes before what may pass by itself.
ORDER = (IMAGE, CONFIG, NO_SCHEDULER, UNSCHEDULABLE, GATED, CRASH, INIT)

_IMAGE_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
     "RegistryUnavailable", "SignatureValidationFailed"}
)  # fmt: skip
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})


def cause_of(pod: LeanPod) -> Blocked | None:
    """Why this pod is not up; None where it is, or where nothing can be said.

    That no scheduler serves it is only a suspicion until the pod is some seconds old (see `Causes.worst`).
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
    return _not_placed(pod) or _init_step(pod)


def _not_placed(pod: LeanPod) -> Blocked | None:
    if pod.spec.node_name:
        return None
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            if condition.reason == "SchedulingGated":
                return Blocked(GATED, condition.message or "its scheduling gates are still on")
            return Blocked(UNSCHEDULABLE, condition.message or "no node can take it")
    scheduler = pod.spec.scheduler_name or "default-scheduler"
    return Blocked(
        NO_SCHEDULER,
        f"no scheduler has looked at it for {UNNOTICED_SECONDS:.0f} s: does one named {scheduler!r} run here?",
    )


def _init_step(pod: LeanPod) -> Blocked | None:
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


def _last_words(container: ContainerStatus) -> str:
    """How the container ended the last time, in its own words where it left some."""
    ended = container.state.terminated or container.last_state.terminated
    if ended is None:
        return ""
    said = ended.message.strip().splitlines()
    return f" (last time: exit code {ended.exit_code}{', ' + said[-1] if said else ''})"


class Causes:
    """The causes of one Job's pods; a pod's change costs the same however many there are."""

    __slots__ = ("_by_pod", "_by_reason")

    def __init__(self) -> None:
        self._by_pod: dict[str, str] = {}
        self._by_reason: dict[str, dict[str, tuple[float, str]]] = {}

    def put(self, pod: LeanPod) -> bool:
        """Take in how a pod stands. False: nothing new."""
        meta, cause = pod.metadata, cause_of(pod)
        if cause is None:
            return self.drop(meta.uid)
        if self._by_pod.get(meta.uid) != cause.reason:
            self.drop(meta.uid)
        created = meta.creation_timestamp.timestamp() if meta.creation_timestamp else 0.0
        self._by_pod[meta.uid] = cause.reason
        pods, told = self._by_reason.setdefault(cause.reason, {}), (created, f"{meta.name}: {cause.message}")
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
        wake_at = None
        for reason in ORDER:
            pods = self._by_reason.get(reason)
            if not pods:
                continue
            created, words = next(iter(pods.values()))
            if reason == NO_SCHEDULER and now < created + UNNOTICED_SECONDS:
                wake_at = created + UNNOTICED_SECONDS
                continue
            more = len(pods) - 1
            return Blocked(reason, f"{words} (and {more} more pods)" if more else words), wake_at
        return None, wake_at
