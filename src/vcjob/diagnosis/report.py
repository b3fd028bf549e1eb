"""`failure_report()`: the first finding about a failed job as a `FailureReport`.

The report names the same rank, cause and hint as `diagnose()`, because it is made from its first finding. It adds how
the container ended and its last lines.
"""

from __future__ import annotations

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.diagnosis.suspect import Suspect
from vcjob.report.failure import LAST_LINES, Culprit, FailureReport, signal_name
from vcjob.wellknown import causes


def failure_report(observation: Observation) -> FailureReport:
    """The report of a job that did not complete; empty where no finding explains it."""
    first = next((each for each in diagnose(observation) if each.cause != causes.STILL_RUNNING), None)
    if first is None:
        return FailureReport(None, [])
    pods = {pod.name: pod for pod in observation.pods}
    named = (*first.ranks.first, *first.ranks.victims)
    if not all(name in pods for name in named):
        pods = {}  # below torchrun a finding names ranks of processes, and rank 1 of them is not pod rank 1
    culprit = _culprit(pods.get(next(iter(first.ranks.first), "")))
    victims = [pods[name].long_name if name in pods else name for name in first.ranks.victims]
    return FailureReport(culprit, victims, first.cause, first.message, first.hint)


def _culprit(pod: PodObservation | None) -> Culprit | None:
    if pod is None or pod.end is None:
        return None
    suspect = Suspect(pod, pod.end)
    traceback = suspect.traceback
    return Culprit(
        pod=pod.pod,
        task=pod.task,
        index=pod.index,
        rank=pod.rank,
        attempt=pod.attempt,
        container=pod.container or "?",
        exit_code=pod.end.exit_code,
        reason=pod.end.reason,
        signal=signal_name(pod.end.signal) if pod.end.signal is not None else None,
        message=pod.end.message or pod.message or None,
        finished_at=pod.end.finished_at,
        stopped=pod.end.stopped,
        frame=str(traceback.own_frame) if traceback and traceback.own_frame else None,
        exception=traceback.exception if traceback else None,
        stderr=list(suspect.lines[-LAST_LINES:]),
    )
