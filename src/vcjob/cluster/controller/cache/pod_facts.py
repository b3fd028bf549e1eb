"""Translates a pod of the API server into the `PodFact` of the lifecycle.

Used by the cache of the controller and by the SDK, so that both judge a pod alike. Pure functions. A pod whose
annotations and name do not identify it gets None, and is then no pod of the Job.
"""

from __future__ import annotations

from typing import cast

from vcjob.cluster.resources import ContainerStatus, PartialPod, Terminated, controller_of, epoch
from vcjob.lifecycle.indexset import INDEX_LIMIT
from vcjob.lifecycle.pod import Failure, PodFact, PodPhase
from vcjob.spec.scalars import natural

PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
#: Reasons of pods that the kubelet or the control plane ended for its own purposes.
EVICTION_REASONS = frozenset({"Evicted", "Preempting", "NodeLost", "Shutdown", "NodeShutdown", "Terminated"})
#: Seconds that a kubelet needs at most from the end of a deleted pod's last container to its last deletion.
KUBELET_DELETES_WITHIN = 3.0


def fact_of(pod: PartialPod, known: PodFact | None = None) -> PodFact | None:
    """The pod's fact; None if its annotations and its name do not identify one of the Job's pods. `known` is an earlier fact
    of a pod whose annotations somebody has edited since."""
    marks = pod.metadata.annotations
    if known is not None:
        task, index = known.task, known.index
    else:
        number = natural(marks.index, INDEX_LIMIT)
        if not marks.task or number is None:
            return None
        task, index = marks.task, number
        owner = controller_of(pod.metadata.owner_references)
        if owner is not None and pod.metadata.name != f"{owner.name}-{task}-{index}":
            # A copy that somebody made of a pod. It would take the pod's place, and pods are deleted by their names.
            return None
    status = pod.status
    terminating = pod.metadata.deletion_timestamp is not None or _is_garbage_collected(pod)
    phase = cast(PodPhase, status.phase if status.phase in PHASES else "Unknown")
    created = epoch(pod.metadata.creation_timestamp) or 0.0
    started, finished = _span(pod)
    if terminating and phase == "Succeeded" and _ended_on_deletion(pod, finished):
        phase = "Failed"
    return PodFact(
        task=task,
        index=index,
        uid=pod.metadata.uid,
        attempt=natural(marks.attempt) or 0,
        version=natural(marks.version) or 0,
        phase=phase,
        ready=phase == "Running" and _condition(pod, "Ready") == "True",
        terminating=terminating,
        created=created,
        since=_deletion_requested_at(pod)
        if terminating
        else _entered(pod, phase, created, started, finished),
        started=started,
        finished=finished if phase in ("Succeeded", "Failed") else None,
        restarts=sum([container.restart_count for container in _containers(pod)]),
        failure=None if phase == "Succeeded" else _failure(pod),
        evicted=phase == "Failed" and _evicted(pod),
    )


def _failure(pod: PartialPod) -> Failure | None:
    """Of all containers that failed, the one that failed first. Within the same second, one that exited on its own comes
    before one that was killed, because the others are killed when one fails."""
    first: tuple[tuple[float, bool, int], ContainerStatus, Terminated, bool] | None = None
    inits = len(pod.status.init_container_statuses)
    for place, container in enumerate(_containers(pod)):
        if place < inits and container.state.terminated and container.state.terminated.exit_code == 0:
            continue  # it failed before, and succeeded at last
        for state in (container.last_state, container.state):
            ended = state.terminated
            if ended is None or ended.exit_code == 0:
                continue
            # A container whose end the kubelet did not see (a pod deadline, a restart of the node) has no time.
            finished = epoch(ended.finished_at)
            order = (float("inf") if finished is None else finished, ended.exit_code > 128, place)
            if first is None or order < first[0]:
                first = order, container, ended, place < inits
    if first is not None:
        (_, _, _), container, ended, init = first
        code = ended.exit_code
        return Failure(
            container=container.name,
            exit_code=code,
            signal=code - 128 if 128 < code < 193 else None,
            reason=ended.reason,
            message=ended.message or (pod.status.message if pod.status.phase == "Failed" else ""),
            init=init,
            at=epoch(ended.finished_at),
        )
    if pod.status.phase == "Failed" and (pod.status.reason or pod.status.message):
        return Failure(reason=pod.status.reason, message=pod.status.message)
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget" and condition.status == "True":
            return Failure(reason=condition.reason, message=condition.message)
    return None


def _evicted(pod: PartialPod) -> bool:
    return pod.status.reason in EVICTION_REASONS or _condition(pod, "DisruptionTarget") == "True"


def _span(pod: PartialPod) -> tuple[float | None, float | None]:
    """When the first main container started and when the last one ended."""
    if not pod.status.container_statuses:
        return None, None
    starts, ends = [], []
    for container in pod.status.container_statuses:
        for state in (container.last_state, container.state):
            if state.running is not None and state.running.started_at is not None:
                starts.append(state.running.started_at.timestamp())
            if state.terminated is not None:
                if state.terminated.started_at is not None:
                    starts.append(state.terminated.started_at.timestamp())
                if state.terminated.finished_at is not None:
                    ends.append(state.terminated.finished_at.timestamp())
    return min(starts, default=None), max(ends, default=None)


def _entered(
    pod: PartialPod, phase: str, created: float, started: float | None, finished: float | None
) -> float:
    if phase == "Pending":
        return created
    if phase == "Running":
        return started or epoch(pod.status.start_time) or created
    changes = [
        at.timestamp()
        for condition in pod.status.conditions
        if condition.type in ("Ready", "DisruptionTarget") and (at := condition.last_transition_time)
    ]
    return finished or max(changes, default=created)


def _is_garbage_collected(pod: PartialPod) -> bool:
    """The control plane marks a pod of a lost node as Failed and deletes it immediately afterwards."""
    return pod.status.phase == "Failed" and any(
        condition.type == "DisruptionTarget" and condition.reason == "DeletionByPodGC"
        for condition in pod.status.conditions
    )


def _deletion_requested_at(pod: PartialPod) -> float:
    """The deletion timestamp lies in the future by the grace period."""
    if pod.metadata.deletion_timestamp is None:
        return _entered(pod, "Failed", epoch(pod.metadata.creation_timestamp) or 0.0, None, None)
    return (epoch(pod.metadata.deletion_timestamp) or 0.0) - (pod.metadata.deletion_grace_period_seconds or 0)


def _ended_on_deletion(pod: PartialPod, finished: float | None) -> bool:
    """A program that exits with 0 because its pod is being deleted has not done its work: it is run again.

    The kubelet's last deletion sets the grace period to 0 and the deletion's time to that moment, which hides when
    the deletion was requested. Then an eviction's condition says when, and without one, an end right before
    counts as caused by the deletion. `Observed` keeps how a pod ended before its deletion was requested."""
    if finished is None:
        return False
    if pod.metadata.deletion_grace_period_seconds:
        return finished >= _deletion_requested_at(pod)
    requested = [
        at.timestamp()
        for condition in pod.status.conditions
        if condition.type == "DisruptionTarget" and (at := condition.last_transition_time)
    ]
    deleted = epoch(pod.metadata.deletion_timestamp) or 0.0
    return finished >= min(requested, default=deleted - KUBELET_DELETES_WITHIN)


def _containers(pod: PartialPod) -> tuple[ContainerStatus, ...]:
    return pod.status.init_container_statuses + pod.status.container_statuses


def _condition(pod: PartialPod, kind: str) -> str:
    for condition in pod.status.conditions:
        if condition.type == kind:
            return condition.status
    return ""
