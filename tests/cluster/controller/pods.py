"""Pods as the API server would send them, read as the controller reads them."""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.cluster.resources import PartialPod

AT = "2026-01-01T00:00:{:02d}Z"
EPOCH = 1767225600.0
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "j",
    "uid": "job-uid",
    "controller": True,
}


def at(second: int) -> str:
    return AT.format(second)


def ended(name: str, code: int, second: int, *, last: bool = False, restarts: int = 0, **fields: Any) -> Any:
    """A container that ended; with `last` it was started again."""
    state = {
        "terminated": {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": at(0),
                       "finishedAt": at(second), **fields}
    }  # fmt: skip
    if last:
        return {
            "name": name,
            "restartCount": restarts or 1,
            "lastState": state,
            "state": {"running": {"startedAt": at(second)}},
        }
    return {"name": name, "restartCount": restarts, "state": state}


def waiting(name: str, reason: str, message: str = "", **fields: Any) -> Any:
    return {"name": name, "state": {"waiting": {"reason": reason, "message": message}}, **fields}


def pod(
    phase: str = "Pending",
    *,
    task: str = "a",
    index: int = 0,
    uid: str = "u",
    attempt: int = 0,
    **fields: Any,
) -> PartialPod:
    metadata = {
        "name": f"j-{task}-{index}",
        "namespace": "n",
        "uid": uid,
        "resourceVersion": "5",
        "creationTimestamp": at(0),
        "ownerReferences": [OWNER],
        "annotations": {
            "volcano.sh/task-spec": task,
            "volcano.sh/task-index": str(index),
            "volcano.sh/job-version": "0",
            "vcjob.io/attempt": str(attempt),
            "other": "ignored",
        },
        **fields.pop("metadata", {}),
    }
    spec = fields.pop("spec", {})
    return msgspec.convert(
        {"metadata": metadata, "spec": spec, "status": {"phase": phase, **fields}}, PartialPod
    )
