"""`explained()`: a status whose message says what the diagnosis found.

Called by both backends once a job has failed or is restarted because of a rank. The lifecycle names the pod whose failure
it saw first; the output of the ranks may show that another one failed before. Then the status names that one, so that
status, event, summary and `vcjob why` agree. Pure: the backend collects the observation and writes the status.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.diagnosis.suspect import Suspect
from vcjob.lifecycle.culprits import MESSAGE_BYTES as FAILURE_BYTES
from vcjob.lifecycle.decision_context import MESSAGE_BYTES
from vcjob.lifecycle.descriptions import describe, shorten
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit, Status


def explained(status: Status, observation: Observation) -> tuple[Status, Finding | None]:
    """The status with the rank that failed first and what it printed, and the first finding. Without a finding, the status is unchanged."""
    first = next(iter(diagnose(observation)), None)
    known = status.culprit
    if first is None or known is None:
        return status, first
    # Where the finding blames no rank, the status keeps the one whose failure ended the job.
    blamed = first.ranks.first or first.ranks.victims
    named = [pod for pod in observation.pods if pod.name in blamed and pod.end is not None]
    if not named:
        return status, first
    same = (pod for pod in named if (pod.task, pod.index) == (known.task, known.index))
    culprit = _culprit(next(same, named[0]), known, first)
    old, new = describe(known), describe(culprit)

    def rewritten(message: str) -> str:
        found = message.replace(old, new, 1) if old in message else new
        return shorten(found, MESSAGE_BYTES)

    state = msgspec.structs.replace(status.state, message=rewritten(status.state.message))
    changes: dict[str, Any] = {"state": state, "culprit": culprit}
    if status.history and status.history[-1].culprit == known:
        last = status.history[-1]
        last = msgspec.structs.replace(last, culprit=culprit, message=rewritten(last.message))
        changes["history"] = (*status.history[:-1], last)
    if status.restarting is not None and status.restarting.culprit == known:
        changes["restarting"] = msgspec.structs.replace(status.restarting, culprit=culprit)
    return msgspec.structs.replace(status, **changes), first


def _culprit(pod: PodObservation, known: Culprit, finding: Finding) -> Culprit:
    end = pod.end
    assert end is not None
    is_known = (pod.task, pod.index) == (known.task, known.index)
    failure = known.failure if is_known and known.failure is not None else None
    if failure is None:
        failed = not end.stopped and end.exit_code != 0  # our own signal is not how it failed
        failure = Failure(
            container=pod.container if failed else "",
            exit_code=end.exit_code if failed else None,
            signal=end.signal if failed else None,
            reason=end.reason,
            at=end.finished_at,
        )
    said = failure.message if failure.message and not pod.blocked_by else _said(pod, finding)
    return Culprit(
        task=pod.task,
        index=pod.index,
        attempt=pod.attempt,
        rank=pod.rank,
        event=known.event,
        failure=msgspec.structs.replace(failure, message=shorten(said, FAILURE_BYTES)),
        cause=finding.cause,
        finding=shorten(finding.message, FAILURE_BYTES),
    )


def _said(pod: PodObservation, finding: Finding) -> str:
    """What its program printed about its end, in one line; empty where how it ended says more."""
    end = pod.end
    assert end is not None
    if end.exit_code == 0 or pod.blocked_by:
        return finding.message.removeprefix(f"{pod.name} ")
    suspect = Suspect(pod, end)
    if suspect.traceback is not None:
        place = suspect.traceback.own_frame
        return f"{suspect.traceback.exception} ({place})" if place else suspect.traceback.exception
    return "" if end.signal or end.reason == "OOMKilled" else suspect.last_line
