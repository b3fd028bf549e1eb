"""Finds the pods and containers of a run that have logs and are not in its record of pods.

A supervisor writes the record a few times a second, while logs are written at once. If it is killed in between, or if
the record is damaged, the logs show more than the record. `recovery` calls it.
"""

from __future__ import annotations

import os
import re
from typing import Any

from vcjob.local.pod.prepare import in_order
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.pods import has_node_rank, pod_uid, rank_of
from vcjob.plan.plan import Plan
from vcjob.report.podstate import ContainerState, PodState
from vcjob.spec.job import Job

_LOG = re.compile(r"(.+)\.(\d+)\.(?:out|err)")


def complete(run: RunDir, job: Job, pods: list[PodState], version: int) -> None:
    """Add the pods and containers that have left logs and are not in the record."""
    known = {(pod.name, pod.attempt): pod for pod in pods}
    plan = Plan(job)
    for name in _entries(run.path("pods")):
        for attempt in map(int, filter(str.isdigit, _entries(run.path("pods", name)))):
            pod = known.get((name, attempt))
            if pod is None:
                pod = _unrecorded(plan, name, attempt, version)
                if pod is None:
                    continue
                pods.append(pod)
            if not pod.finished and not pod.containers:
                _add_containers(run.pod_folder(name, attempt), plan.pod(pod.task, pod.index), pod)


def _unrecorded(plan: Plan, name: str, attempt: int, version: int) -> PodState | None:
    head, _, number = name.rpartition("-")
    for task in plan.job.tasks:
        if head == f"{plan.job.name}-{task.name}" and number.isdigit() and int(number) < task.replicas:
            index = int(number)
            planned = plan.pod(task.name, index)
            return PodState(
                task=task.name,
                index=index,
                name=name,
                uid=pod_uid(plan.job.uid, (task.name, index, attempt)),
                version=version,
                attempt=attempt,
                rank=rank_of(planned),
                node_rank=has_node_rank(planned),
            )
    return None


def _add_containers(folder: str, planned: dict[str, Any], pod: PodState) -> None:
    written = {match[1] for match in filter(None, map(_LOG.fullmatch, _entries(folder)))}
    for role, container in in_order(planned["spec"]):
        if container["name"] in written:
            began = os.stat(os.path.join(folder, f"{container['name']}.0.out")).st_mtime
            pod.containers.append(ContainerState(name=container["name"], role=role, started_at=began))


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
