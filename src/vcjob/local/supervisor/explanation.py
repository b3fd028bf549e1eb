"""`explain()`: the diagnosis of a failed local job, for its status and its events.

Called by the supervisor when the job has failed and all processes have ended.
"""

from __future__ import annotations

from vcjob.diagnosis.explanation import explained
from vcjob.diagnosis.finding import Finding
from vcjob.lifecycle.status import Status
from vcjob.local.logs.observation import collect
from vcjob.local.run.run_dir import RunDir


def explain(run: RunDir, status: Status) -> tuple[Status, Finding | None]:
    """The status with the rank that failed first, and the first finding. Without a finding, the status is unchanged."""
    return explained(status, collect(run, status, run.pods()))
