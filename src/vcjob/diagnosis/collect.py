"""The part of an `Observation` that both backends share: the Job, its status and its pods.

A backend calls `observe` and then adds what only it can know: log tails, events, sockets. Pure: no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vcjob.diagnosis.observation import End, Observation, PodObservation
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.policies import POD_EVICTED
from vcjob.lifecycle.status import Culprit, Status
from vcjob.plugins.pytorch import world_size
from vcjob.plugins.pytorch_options import parse_options
from vcjob.plugins.wait import CONTAINER_NAME
from vcjob.report.podstate import ContainerState, Ended, PodState
from vcjob.spec.job import Job

#: Nobody saw how the container ended, so its exit code says nothing.
_UNSEEN = "ContainerStatusUnknown"
_EVICTED = "Evicted"
_STOP_SIGNALS = (9, 15)


def observe(backend: str, job: Job, status: Status, pods: Iterable[PodState], now: float) -> Observation:
    """The job as recorded, without logs and events; of every pod the newest attempt."""
    observed = [_pod(pod, job) for pod in newest_attempts(pods)]
    observed.sort(key=lambda pod: (pod.rank is None, pod.rank or 0, pod.task, pod.index))
    culprit = status.culprit
    if culprit is not None:
        known = next(
            (pod for pod in observed if (pod.task, pod.index) == (culprit.task, culprit.index)), None
        )
        if known is None and (culprit.failure is not None or culprit.event == POD_EVICTED):
            observed.append(_deleted_pod(job, culprit))
        elif known is not None and culprit.event == POD_EVICTED and known.attempt == culprit.attempt:
            known.reason = known.reason or _EVICTED
    return Observation(
        name=job.name,
        backend=backend,
        phase=str(status.phase),
        reason=status.state.reason,
        message=status.state.message,
        namespace=job.namespace,
        now=now,
        expected_ranks=_expected_ranks(job),
        recorded=(culprit.task, culprit.index) if culprit is not None else None,
        recorded_finding=(culprit.cause, culprit.finding) if culprit is not None and culprit.cause else None,
        pods=observed,
    )


def _expected_ranks(job: Job) -> int | None:
    if "pytorch" not in job.spec.plugins:
        return None
    options, _ = parse_options(job.spec.plugins["pytorch"] or ())
    return world_size(job, options) or None


def newest_attempts(pods: Iterable[PodState]) -> list[PodState]:
    """The last attempt of every index, of the last version of the job."""
    ordered = sorted(pods, key=lambda pod: pod.attempt)
    version = max((pod.version for pod in ordered), default=0)
    newest = {(pod.task, pod.index): pod for pod in ordered}
    return [pod for pod in newest.values() if pod.version == version]


def counted_container(pod: PodState) -> tuple[ContainerState | None, Ended | None]:
    """The container whose end counts, and that end: the first failure, else the end of the main container."""
    failure = pod.first_failure()
    if failure is not None:
        container, ended = failure
        if pod.phase == "Failed" or (
            pod.phase != "Succeeded" and (container.ended is ended or container.waiting)
        ):
            return failure
    main = next((each for each in pod.containers if each.role == "main"), None)
    return main, main.ended if main else None


def _pod(pod: PodState, job: Job) -> PodObservation:
    container, ended = counted_container(pod)
    meeting = next((each for each in pod.containers if each.name == CONTAINER_NAME and not each.ended), None)
    spec = container_spec(job, pod.task, container.name if container else "")
    limits = (spec.get("resources") or {}).get("limits") or {}
    return PodObservation(
        pod=pod.name,
        task=pod.task,
        index=pod.index,
        rank=pod.rank,
        attempt=pod.attempt,
        phase=pod.phase,
        reason=pod.reason or pod.disruption or "",
        message=pod.message or pod.disruption_message or "",
        node=pod.node or "",
        node_lost=pod.node_lost,
        created_at=pod.created_at,
        container=container.name if container else "",
        end=_end(ended, pod) if ended else None,
        waits_for_master_since=meeting.started_at if meeting else None,
        memory_limit=str(limits.get("memory", "")),
        command=tuple(map(str, (*(spec.get("command") or ()), *(spec.get("args") or ())))),
    )


def _end(ended: Ended, pod: PodState) -> End:
    deleted = pod.deleted_at is not None and ended.signal in _STOP_SIGNALS
    return End(
        exit_code=ended.exit_code,
        reason=ended.reason,
        signal=ended.signal,
        message=ended.message or "",
        finished_at=ended.finished_at,
        stopped=ended.stopped or deleted or ended.reason == _UNSEEN,
        stopped_at=pod.deleted_at,
    )


def _deleted_pod(job: Job, culprit: Culprit) -> PodObservation:
    """The pod that the status names, where it no longer exists."""
    failure = culprit.failure or Failure()
    evicted = culprit.event == POD_EVICTED
    return PodObservation(
        pod=f"{job.name}-{culprit.task}-{culprit.index}",
        task=culprit.task,
        index=culprit.index,
        rank=culprit.rank,
        attempt=culprit.attempt,
        phase="Failed",
        reason=(failure.reason or _EVICTED) if evicted else "",
        message=failure.message,
        container=failure.container or "",
        end=None
        if evicted and failure.exit_code is None
        else End(
            exit_code=failure.exit_code if failure.exit_code is not None else 1,
            reason=failure.reason,
            signal=failure.signal,
            message=failure.message,
            finished_at=failure.at,
        ),
    )


def container_spec(job: Job, task: str, container: str) -> dict[str, Any]:
    """The container as the Job describes it; empty where it does not."""
    found = job.task(task)
    specs = [spec for _, spec in found.containers(0)] if found else []
    return next((spec for spec in specs if spec.get("name") == container), {})
