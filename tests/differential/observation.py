"""What is compared of a Job on two backends, and how differences are named."""

from __future__ import annotations

from typing import Any

import msgspec

OVER = ("Completed", "Failed", "Terminated", "Aborted")


class ContainerSeen(msgspec.Struct):
    """One container of a pod when its Job has ended; logs are those of its last instance."""

    exit_code: int | None
    reason: str
    restarts: int
    stdout: str = ""
    stderr: str = ""
    #: Both streams, in the order in which they were received; only for Jobs that ask for it.
    merged: str = ""


class PodSeen(msgspec.Struct):
    phase: str
    reason: str
    containers: dict[str, ContainerSeen]


class JobSeen(msgspec.Struct):
    phase: str
    reason: str
    retries: int
    version: int
    succeeded: int
    failed: int
    pods: dict[str, PodSeen]

    @classmethod
    def of(cls, status: dict[str, Any], pods: dict[str, PodSeen]) -> JobSeen:
        return cls(
            phase=status["state"]["phase"],
            reason=status["state"].get("reason", ""),
            retries=status.get("retryCount", 0),
            version=status.get("version", 0),
            succeeded=status.get("succeeded", 0),
            failed=status.get("failed", 0),
            pods=pods,
        )


def differences(local: JobSeen, cluster: JobSeen) -> dict[str, tuple[str, str]]:
    """By path (`pods.t-0.main.stdout`): what the local backend shows, and what the kubelet shows."""
    ours, theirs = _flat(local), _flat(cluster)
    return {
        path: (ours.get(path, "absent"), theirs.get(path, "absent"))
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path, "absent") != theirs.get(path, "absent")
    }


def _flat(seen: JobSeen) -> dict[str, str]:
    found: dict[str, str] = {}
    document: dict[str, Any] = msgspec.to_builtins(seen)
    pods = document.pop("pods")
    found.update({f"job.{name}": str(value) for name, value in document.items()})
    for pod, fields in pods.items():
        containers = fields.pop("containers")
        found.update({f"{pod}.{name}": str(value) for name, value in fields.items()})
        for container, states in containers.items():
            found.update({f"{pod}.{container}.{name}": str(value) for name, value in states.items()})
    return found
