"""Why a job is pending: the reason that the backend found, with what to do about it.

`diagnose` calls it with the reason that the status already has: nothing is searched here. A reason without a hint in
`HINTS` is shown with its message alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.diagnosis.finding import Evidence, Finding
from vcjob.diagnosis.observation import Observation
from vcjob.wellknown import reasons

#: What helps, by reason. A reason without an entry is shown with its message alone.
HINTS = {
    reasons.QUOTA_EXCEEDED: "ask for less, or have the namespace's ResourceQuota raised",
    reasons.LIMIT_RANGE: "keep requests and limits within the namespace's LimitRange",
    reasons.POD_SECURITY: "set the securityContext that the namespace's pod security level asks for",
    reasons.REJECTED_BY_WEBHOOK: "the message is the webhook's: change the Job, or ask who operates it",
    reasons.WEBHOOK_FAILED: "the webhook's service does not answer: ask who operates it",
    reasons.FORBIDDEN: "give the controller the right that the message names",
    reasons.NAME_CONFLICT: "rename the Job, or delete the object that has the name",
    reasons.NO_CONTROLLER: "install the controller with `vcjob install`, or have it watch this namespace",
    reasons.NO_SUCH_SCHEDULER: "set schedulerName to a scheduler that runs in this cluster",
    reasons.UNSCHEDULABLE: "ask for less, add nodes, or correct nodeSelector, affinity and tolerations",
    reasons.SCHEDULING_GATED: "remove the pod's schedulingGates, or wait for whoever set them",
    reasons.IMAGE_PULL: "check the image's name and tag, and imagePullSecrets",
    reasons.CONTAINER_CONFIG: "create the ConfigMap or Secret that the message names",
    reasons.VOLUME: "check that the claim, ConfigMap or Secret exists in the namespace; a claim must also be bound",
    reasons.WAITING_IN_QUEUE: "wait, or use a queue with free capacity (`kubectl get queue`)",
    reasons.CRASH_LOOP: "see the logs of the failing container (`vcjob logs --previous`)",
    reasons.INIT_STEP: "see the logs of the init container (`vcjob logs -c NAME`)",
    reasons.INSUFFICIENT_GPUS: "wait for the other jobs, or ask for fewer GPUs",
    reasons.NO_REPLICAS: "set replicas of a task to 1 or more",
    reasons.WAITING_FOR_DEPENDS_ON: "the tasks in dependsOn have to run or succeed first",
}
_GANG = "all pods of the gang must fit at the same time: ask for less, or wait for other jobs"
#: What helps a pod that no node fits, by what the scheduler says; a message may say several things.
_UNSCHEDULABLE = (
    ("pod group is not ready", _GANG),
    ("once minAvailable is satisfied", _GANG),
    (
        "Insufficient nvidia.com/gpu",
        "no node has that many free GPUs: `kubectl describe nodes` shows what is in use",
    ),
    ("Insufficient ", "request less in resources.requests, or add nodes"),
    ("affinity/selector", "correct nodeSelector and affinity: `kubectl get nodes --show-labels`"),
    ("untolerated taint", "add tolerations for the taints of the nodes (`kubectl describe nodes`)"),
)
_QUIET = frozenset({reasons.PODS_PENDING, reasons.STARTING})


def pending(observation: Observation) -> Iterator[Finding]:
    if observation.phase != "Pending" or not observation.reason:
        return
    quiet = observation.reason in _QUIET
    warnings = (event for event in observation.events if event.type == "Warning")
    # Pods that wait for the same thing have the same event, and the Job's own event repeats the message.
    different = {event.message: event for event in warnings if event.message != observation.message}
    yield Finding(
        observation.reason,
        observation.message or "the job waits",
        evidence=tuple(
            Evidence(f"event {event.reason}", event.message) for event in [*different.values()][-3:]
        ),
        hint=_hint(observation),
        confidence="low" if quiet else "high",
    )


def _hint(observation: Observation) -> str:
    if observation.reason == reasons.UNSCHEDULABLE:
        fitting = (hint for words, hint in _UNSCHEDULABLE if words in observation.message)
        return next(fitting, HINTS[reasons.UNSCHEDULABLE])
    return HINTS.get(observation.reason, "")
