"""Waits until every replica of the controller is available, and finds out why it is not.

`vcjob install` waits with it; doctor uses its checks. BackendError with the pods' own reason if the time runs out.
"""

from __future__ import annotations

from typing import Any

from vcjob.cluster.install.objects.workload import POD_LABELS
from vcjob.cluster.install.settings import NAME, Settings
from vcjob.cluster.install.waiting import Progress, wait_until
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import DEPLOYMENTS, PODS, Document

_LONGEST_MESSAGE = 600


async def wait_for_rollout(client: Client, settings: Settings, seconds: float, progress: Progress) -> None:
    """Return when every replica of this version is available."""

    async def runs() -> bool:
        return is_rolled_out(await client.get(DEPLOYMENTS, NAME, settings.namespace))

    if not await wait_until(runs, "the controller to run", seconds, progress):
        raise BackendError(
            f"the controller is installed but does not run after {seconds:.0f} s: "
            + await _why_not(client, settings.namespace),
            hint=f"`kubectl -n {settings.namespace} describe pods` and `logs deploy/{NAME}` say more",
        )


def is_rolled_out(deployment: Document) -> bool:
    wanted: int = (deployment.get("spec") or {}).get("replicas") or 0
    status: dict[str, Any] = deployment.get("status") or {}
    return bool(
        (status.get("observedGeneration") or 0) >= deployment["metadata"].get("generation", 0)
        and (status.get("updatedReplicas") or 0) == wanted
        and (status.get("replicas") or 0) == wanted
        and (status.get("availableReplicas") or 0) == wanted
    )


async def _why_not(client: Client, namespace: str) -> str:
    selector = ",".join(f"{key}={value}" for key, value in POD_LABELS.items())
    reasons = [
        reason for pod in await client.list(PODS, namespace, labels=selector) if (reason := pod_problem(pod))
    ]
    return "; ".join(dict.fromkeys(reasons)) or "no pod has been created yet"


def pod_problem(pod: Document) -> str:
    """Why a pod is not ready, as its status says; empty where it is ready."""
    status: dict[str, Any] = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
            ended = (container.get("lastState") or {}).get("terminated") or {}
            message = str(ended.get("message") or waiting.get("message") or "").strip()
            return f"{waiting['reason']}: {message[-_LONGEST_MESSAGE:]}".rstrip(": ")
    for condition in status.get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason"))
    for condition in status.get("conditions") or []:
        if condition.get("type") == "Ready" and condition.get("status") == "True":
            return ""
    return f"a pod is {status.get('phase', 'Pending')} and not ready"
