"""Jobs as the page shows them: plain JSON from the handles of the SDK.

Every function blocks, for it reads files or asks a cluster; `server` calls them in threads.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.report import failure_report
from vcjob.sdk.handle import Handle

#: Events that are sent; older ones are left out.
MAX_EVENTS = 500


def summary(job: Handle) -> dict[str, Any]:
    """One row of the list. `replicas` is what the Job asks for, `pods` what there is."""
    status = job.status()
    return {
        "namespace": job.namespace,
        "name": job.name,
        "uid": job.uid,
        "phase": str(status.phase),
        "reason": status.state.reason,
        "message": status.state.message,
        "created": job.created,
        "started": status.started,
        "finished": status.finished,
        "done": job.done,
        "restarts": status.restarts,
        "replicas": job.replicas,
        "pods": {
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
        },
    }


def pods(job: Handle) -> list[dict[str, Any]]:
    """Every pod: its rank, state, restarts and containers."""
    found: list[dict[str, Any]] = [msgspec.to_builtins(pod) for pod in job.pods()]
    return sorted(found, key=lambda pod: (pod.get("rank") is None, pod.get("rank") or 0, pod["name"]))


def events(job: Handle) -> list[dict[str, Any]]:
    return [
        {
            "type": event.get("type", "Normal"),
            "reason": event.get("reason", ""),
            "message": event.get("message", ""),
            "time": event.get("lastTimestamp") or event.get("eventTime") or event.get("firstTimestamp"),
            "count": event.get("count", 1),
        }
        for event in job.events()[-MAX_EVENTS:]
    ]


def diagnosis(job: Handle) -> dict[str, Any]:
    """The findings, as `vcjob why -o json` prints them, and the failure report of a job that did not complete.

    Both are from one observation: on a cluster each costs several requests.
    """
    observation = job.observe()
    running = observation.phase in ("Completed", "Running", "Pending")
    report = None if running else failure_report(observation)
    return {
        "failure": msgspec.to_builtins(report) if report and report.culprit else None,
        "findings": msgspec.to_builtins(diagnose(observation)),
    }


def earlier(job: Handle) -> list[dict[str, Any]]:
    return [{"uid": run.uid, "phase": run.phase, "created": run.created} for run in job.earlier_runs()]


def detail(job: Handle) -> dict[str, Any]:
    """Everything that the job page shows at once; the stream sends the same parts when they change."""
    return {
        "job": summary(job),
        "pods": pods(job),
        "events": events(job),
        **diagnosis(job),
        "progress": "" if job.done else str(job.progress() or ""),
        "notes": job.notes(),
        "earlier": earlier(job),
    }
