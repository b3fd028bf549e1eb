"""The pod of a task before any plugin: metadata, owner, scheduler and volumes that every pod of a Job gets.

`Plan` calls `draft_pod` once for each task and hands the result to the plugins.
"""

from __future__ import annotations

from typing import Any

from vcjob.plan import names
from vcjob.plan.gang import Gang
from vcjob.plugins.base import PodDraft, Slot
from vcjob.plugins.edition import EDITION
from vcjob.plugins.hosts import pod_name
from vcjob.spec.document import copied
from vcjob.spec.job import Job, Task
from vcjob.wellknown.annotations import ATTEMPT

#: Fields of a template's metadata that identify an object; a pod has its own.
_IDENTITY = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "selfLink",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "ownerReferences",
        "labels",
        "annotations",
    }
)

_COPIED_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME)
_COPIED_ANNOTATIONS = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE)


def draft_pod(job: Job, task: Task, gang: Gang, mark: str, edition: int = EDITION) -> PodDraft:
    template = copied(task.template)
    metadata = _without_nulls(template.pop("metadata", None))
    spec = _without_nulls(template.pop("spec", None))
    for key in ("containers", "initContainers"):
        if key in spec:
            spec[key] = [_without_nulls(container) for container in spec[key]]

    labels = _without_nulls(metadata.get("labels")) | _labels(job, task, mark)
    annotations = _without_nulls(metadata.get("annotations")) | _annotations(job, task, mark)
    gang.mark_pod(job, labels, annotations)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(job, task, Slot(mark, "index")),
            "namespace": job.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [names.owner_reference(job)],
            **{key: value for key, value in metadata.items() if key not in _IDENTITY},
        },
        "spec": spec,
        # Fields that a later Kubernetes adds to templates next to `spec` belong to the pod too.
        **{key: value for key, value in template.items() if value is not None},
    }
    _set_scheduling(job, spec, gang)
    _mount_volumes(job, spec)
    return PodDraft(job, task, pod, mark, edition)


def _labels(job: Job, task: Task, mark: str) -> dict[str, str]:
    labels = {
        names.TASK_INDEX: str(Slot(mark, "index")),
        names.JOB_NAME: job.name,
        names.TASK_SPEC: task.name,
        names.JOB_NAMESPACE: job.namespace,
        names.QUEUE_NAME: names.queue(job),
        ATTEMPT: str(Slot(mark, "attempt")),
    }
    if task.partition_policy is not None:
        labels[names.PARTITION_ID] = str(Slot(mark, "partition"))
    return labels | _selected(job.metadata.labels, _COPIED_LABELS)


def _annotations(job: Job, task: Task, mark: str) -> dict[str, str]:
    annotations = {
        names.TASK_INDEX: str(Slot(mark, "index")),
        names.TASK_SPEC: task.name,
        names.JOB_NAME: job.name,
        names.QUEUE_NAME: names.queue(job),
        names.JOB_VERSION: str(Slot(mark, "version")),
        names.TEMPLATE_UID: f"{job.name}-{task.name}",
        names.JOB_RETRY_COUNT: str(Slot(mark, "retries")),
        ATTEMPT: str(Slot(mark, "attempt")),
    }
    if task.topology_policy:
        annotations[names.NUMA_TOPOLOGY_POLICY] = task.topology_policy
    given = job.metadata.annotations
    budget = names.JDB_MIN_AVAILABLE if names.JDB_MIN_AVAILABLE in given else names.JDB_MAX_UNAVAILABLE
    return annotations | _selected(given, (*_COPIED_ANNOTATIONS, budget))


def _selected(given: dict[str, str], keys: tuple[str, ...]) -> dict[str, str]:
    return {key: given[key] for key in keys if key in given}


def _set_scheduling(job: Job, spec: dict[str, Any], gang: Gang) -> None:
    """Take the scheduler and the priority class from the Job where the template sets none."""
    if not spec.get("schedulerName"):
        spec.pop("schedulerName", None)
        scheduler = gang.scheduler_name(job)
        if scheduler:
            spec["schedulerName"] = scheduler
    if not spec.get("priorityClassName") and job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name


def _mount_volumes(job: Job, spec: dict[str, Any]) -> None:
    """Mount the volumes of the Job in every container; mounts of one claim share one volume."""
    volume_of: dict[str, str] = {}
    mounts = []
    for volume in job.spec.volumes:
        claim = volume.volume_claim_name or names.claim_name(job, volume.mount_path)
        if claim not in volume_of:
            volume_of[claim] = names.volume_name(job, volume.mount_path)
            spec.setdefault("volumes", []).append(
                {"name": volume_of[claim], "persistentVolumeClaim": {"claimName": claim}}
            )
        mounts.append({"name": volume_of[claim], "mountPath": volume.mount_path})
    for container in spec.get("containers", []) if mounts else ():
        own = container.get("volumeMounts") or []
        taken = {mount.get("mountPath") for mount in own}
        container["volumeMounts"] = [*own, *(mount for mount in mounts if mount["mountPath"] not in taken)]


def _without_nulls(mapping: dict[str, Any] | None) -> dict[str, Any]:
    """The mapping without its nulls, which the API server treats as absent."""
    return {key: value for key, value in (mapping or {}).items() if value is not None}
