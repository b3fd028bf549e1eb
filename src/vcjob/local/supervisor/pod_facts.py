"""Translates a local pod's state into the `PodFact` of the lifecycle.

Used by the supervisor for pods that run and by recovery for pods that a lost supervisor left behind. Pure functions:
they read the state that the pod's shim wrote, and no process.
"""

from __future__ import annotations

from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.report.podstate import EVICTED, PodState


def fact(pod: PodState) -> PodFact:
    return PodFact(
        task=pod.task,
        index=pod.index,
        uid=pod.uid,
        attempt=pod.attempt,
        version=pod.version,
        phase="Failed" if _ended_on_deletion(pod) else pod.phase,
        ready=pod.ready,
        terminating=pod.deleted_at is not None,
        created=pod.created_at,
        since=pod.finished_at or pod.started_at or pod.created_at,
        started=pod.started_at,
        finished=pod.finished_at,
        restarts=pod.restarts,
        failure=failure(pod),
        evicted=pod.reason == EVICTED,
    )


def _ended_on_deletion(pod: PodState) -> bool:
    """A program that exits with 0 because its pod is being ended has not done its work: a resume runs it again."""
    return (
        pod.phase == "Succeeded"
        and pod.deleted_at is not None
        and pod.finished_at is not None
        and pod.finished_at >= pod.deleted_at
    )


def failure(pod: PodState) -> Failure | None:
    first = pod.first_failure()
    if first is None:
        if pod.phase == "Failed":
            return Failure(reason=pod.reason or "Error", message=pod.message or "", at=pod.finished_at)
        return None
    container, ended = first
    return Failure(
        container=container.name,
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message or pod.message or "",
        init=container.role != "main",
        at=ended.finished_at,
    )
