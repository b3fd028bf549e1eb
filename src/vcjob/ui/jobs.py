"""Jobs as the page shows them: plain JSON from the handles of the SDK.

Every function blocks, for it reads files or asks a cluster; `server` calls them in threads.
"""

from __future__ import annotations

from typing import Any

import msgspec

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


def failure(job: Handle) -> dict[str, Any] | None:
    """The failure report of a job that did not complete."""
    if job.phase in ("Completed", "Running", "Pending"):
        return None
    report: dict[str, Any] = msgspec.to_builtins(job.failure())
    return report if report.get("culprit") else None


def findings(job: Handle) -> list[dict[str, Any]]:
    """Why it is pending, failed or hangs, as `vcjob why -o json` prints it."""
    found: list[dict[str, Any]] = [msgspec.to_builtins(finding) for finding in job.why()]
    return found


def earlier(job: Handle) -> list[dict[str, Any]]:
    return [{"uid": run.uid, "phase": run.phase, "created": run.created} for run in job.earlier_runs()]


def detail(job: Handle) -> dict[str, Any]:
    """Everything that the job page shows at once; the stream sends the same parts when they change."""
    return {
        "job": summary(job),
        "pods": pods(job),
        "events": events(job),
        "failure": failure(job),
        "findings": findings(job),
        "notes": job.notes(),
        "earlier": earlier(job),
    }
