"""Jobs as the page shows them: plain JSON from the handles of the SDK.

Every function blocks, for it reads files or asks a cluster; `server` calls them in threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from vcjob.diagnosis.collect import newest_attempts
from vcjob.errors import BackendError, NoSuchJob, StoreError, UserError, VcjobError
from vcjob.lifecycle.status import Status
from vcjob.report.events import event_time
from vcjob.sdk.backend import Backend
from vcjob.sdk.handle import Handle
from vcjob.ui.diagnosing import Diagnosis

#: Shown instead of a phase where the files of a run cannot be read, as `vcjob list` does.
DAMAGED = "Damaged"
#: Events that are sent; older ones are left out.
MAX_EVENTS = 500


def summaries(backend: Backend, namespace: str | None) -> list[dict[str, Any]]:
    """The rows of the list. A job that was deleted since it was found is left out, a damaged one says so."""
    rows: list[dict[str, Any]] = []
    for job in backend.list(namespace, all_namespaces=namespace is None):
        try:
            rows.append(summary(job))
        except NoSuchJob:
            continue
        except StoreError as error:
            damaged = {"phase": DAMAGED, "message": _sentence(error)}
            rows.append({**_row(job, Status(), done=True, replicas=0), **damaged})
    return rows


def summary(job: Handle) -> dict[str, Any]:
    """One row of the list. `replicas` is what the Job asks for, `pods` what there is."""
    with job.one_read():
        return _row(job, job.status(), done=job.done, replicas=job.replicas)


def _row(job: Handle, status: Status, *, done: bool, replicas: int) -> dict[str, Any]:
    progress = job.progress() if status.running else None
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
        "done": done,
        "restarts": status.restarts,
        "replicas": replicas,
        "progress": progress and {"text": str(progress), "percent": progress.percent},
        "pods": {
            "pending": status.pending,
            "running": status.running,
            "succeeded": status.succeeded,
            "failed": status.failed,
            "up": status.up(replicas),
        },
    }


def pods(job: Handle) -> list[dict[str, Any]]:
    """Every pod: its rank, state, restarts and containers."""
    found: list[dict[str, Any]] = [
        {**msgspec.to_builtins(pod), "phase": pod.phase}  # also where it is the default
        for pod in job.pods()
    ]
    return sorted(found, key=lambda pod: (pod.get("rank") is None, pod.get("rank") or 0, pod["name"]))


def events(job: Handle) -> list[dict[str, Any]]:
    return [_event(each) for each in job.events()[-MAX_EVENTS:]]


def _event(event: dict[str, Any]) -> dict[str, Any]:
    """An event that happened several times has the times of the first and the last; newer clients call these series."""
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    what = f"{about.get('kind', '?').lower()}/{about.get('name', '?')}"
    return {
        "type": event.get("type") or "Normal",
        "reason": event.get("reason") or "",
        "message": event.get("message") or "",
        "object": "" if about.get("kind") == "Job" else what,
        "first": event.get("firstTimestamp") or event.get("eventTime") or event_time(event),
        "time": event_time(event),
        "count": event.get("count") or series.get("count") or 1,
    }


def stacks(job: Handle) -> dict[str, Any]:
    """The Python stacks of all running ranks, ranks at the same place together."""
    groups = [
        {"text": str(group), "frames": [f"{f.function}  {f.file}:{f.line}" for f in group.frames]}
        for group in job.stacks().groups()
    ]
    return {"groups": groups}


def usage(job: Handle, seconds: float) -> dict[str, Any]:
    """What each running pod uses and how far it is, by uid, measured over `seconds`; or why that is not known."""
    pods = {pod.name: pod.uid for pod in newest_attempts(job.pods())}
    found: dict[str, dict[str, Any]] = {
        uid: {"step": progress.step, "total": progress.total}
        for uid, progress in job.progress_by_pod().items()
        if progress.step is not None
    }
    try:
        measured = job.usage(seconds=seconds).ranks
    except UserError:
        return {"pods": found, "note": ""}  # nothing runs
    except BackendError as error:
        return {"pods": found, "note": _sentence(error)}
    for each in measured:
        if each.pod in pods:
            found.setdefault(pods[each.pod], {}).update(
                cpu=each.cpu_percent,
                memory=each.memory_bytes,
                gpu=each.gpu_percent,
                gpuMemory=each.gpu_memory_bytes,
            )
    return {"pods": found, "note": ""}


def earlier(job: Handle) -> list[dict[str, Any]]:
    return [{"uid": run.uid, "phase": run.phase, "created": run.created} for run in job.earlier_runs()]


def detail(job: Handle, diagnosis: Diagnosis | None = None) -> dict[str, Any]:
    """Everything that the job page shows at once; the stream sends the same parts when they change.

    `diagnosis` keeps the findings between two calls; without one they are read, and hangs on a cluster are not searched.
    On a cluster the caller may lack the right to read some of it: `missing` then says so, and the rest is shown.
    """
    missing: list[str] = []
    findings = diagnosis or Diagnosis(hangs=False)

    def part(read: Callable[[Handle], Any], otherwise: Any) -> Any:
        try:
            return read(job)
        except BackendError as error:
            missing.append(_sentence(error))
            return otherwise

    with job.one_read():
        found = {"job": summary(job), "pods": part(pods, []), "events": part(events, [])}
        basis = [{**found["job"], "progress": None}, found["pods"], found["events"]]
        found |= part(lambda each: findings.read(each, basis), {"failure": None, "findings": []})
        found["notes"] = part(lambda each: each.notes(), []) + ([findings.unread] if findings.unread else [])
        found["earlier"] = earlier(job)
    return {**found, "missing": list(dict.fromkeys(missing))}


def _sentence(error: VcjobError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message
