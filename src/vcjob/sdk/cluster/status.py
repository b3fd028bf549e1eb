"""The status of a Job object of a cluster, and which of its events are notes for the user.

Plain functions on documents. A Job that no controller has picked up gets a reason that says so.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec

from vcjob.cluster.resources import seconds_of
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.wellknown import reasons

#: A controller sees a Job within milliseconds; one without a status for this long has none.
_UNNOTICED_SECONDS = 5.0
#: Events of the Job that its state does not show.
_NOTED = (reasons.SCHEDULER_REPLACED, reasons.COMMAND_REJECTED, reasons.INVALID_UPDATE)


def status_of(job: dict[str, Any]) -> Status:
    status = Status.readable(job.get("status"))
    if (job.get("status") or {}).get("state") or not _is_old(job):
        return status
    namespace = job["metadata"]["namespace"]
    message = f"no controller serves the namespace {namespace!r}; `vcjob doctor --on cluster -n {namespace}` says why"
    return msgspec.structs.replace(status, state=State(Phase.PENDING, reasons.NO_CONTROLLER, message))


def _is_old(job: dict[str, Any]) -> bool:
    return time.time() > created_at(job) + _UNNOTICED_SECONDS


def created_at(job: dict[str, Any]) -> float:
    return seconds_of(job["metadata"]["creationTimestamp"])


def is_note(event: dict[str, Any], uid: str) -> bool:
    return (event.get("involvedObject") or {}).get("uid") == uid and event.get("reason") in _NOTED
