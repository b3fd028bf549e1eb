"""`explain()`: the diagnosis of a failed job, for its status and its events.

Called by the supervisor when the job has failed and all processes have ended. The lifecycle names the pod whose failure
it saw first; the output of the ranks may show that another one failed before. Then the status names that one, so that
status, event, summary and `vcjob why` agree.
"""

from __future__ import annotations

import msgspec

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import PodObservation
from vcjob.diagnosis.suspect import Suspect
from vcjob.lifecycle.descriptions import describe
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit, Status
from vcjob.local.logs.observation import collect
from vcjob.local.run.run_dir import RunDir


def explain(run: RunDir, status: Status) -> tuple[Status, Finding | None]:
    """The status with the rank that failed first, and the first finding; both as they were where none is found."""
    observation = collect(run, status, run.pods())
    first = next(iter(diagnose(observation)), None)
    named = first.ranks.first if first else ()
    found = [pod for pod in observation.pods if pod.name in named and pod.end is not None]
    known = status.culprit
    if not found or known is None or (known.task, known.index) in {(pod.task, pod.index) for pod in found}:
        return status, first
    culprit = _culprit(found[0])
    state = msgspec.structs.replace(status.state, message=describe(culprit))
    return msgspec.structs.replace(status, state=state, culprit=culprit), first


def _culprit(pod: PodObservation) -> Culprit:
    end = pod.end
    assert end is not None
    failure = Failure(
        container="" if end.stopped else pod.container,  # our own signal is not how it failed
        exit_code=None if end.stopped else end.exit_code,
        signal=None if end.stopped else end.signal,
        reason=end.reason,
        message=Suspect(pod, end).reason,
        at=end.finished_at,
    )
    return Culprit(pod.task, pod.index, pod.attempt, pod.rank, "PodFailed", failure)
