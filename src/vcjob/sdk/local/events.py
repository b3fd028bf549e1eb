"""Events of a local run in the form of Kubernetes Events, so that both backends return the same documents.

The local handle calls `as_event` for each event that the supervisor stored. They are documents only: no cluster is
involved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vcjob.lifecycle.status_codec import rfc3339
from vcjob.local.run.run_dir import Event

if TYPE_CHECKING:
    from vcjob.sdk.handle import Handle


def as_event(job: Handle, number: int, event: Event) -> dict[str, Any]:
    moment = rfc3339(event.time)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{job.name}.{number:x}",
            "namespace": job.namespace,
            "creationTimestamp": moment,
        },
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": 1,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "involvedObject": {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.uid,
        },
        "source": {"component": "vcjob"},
    }
