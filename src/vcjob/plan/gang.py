"""Gangs: how the pods of a Job are presented to a scheduler as one group.

There are three ways: Volcano's PodGroup, the PodGroup of the coscheduling plugin, or no group. The rest of a
plan does not depend on which one is used.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

from vcjob.plan import names
from vcjob.plan.members import Members
from vcjob.spec.job import Job, PartitionPolicy, Task

GangName: TypeAlias = Literal["volcano", "none", "coscheduling"]
GANGS: tuple[GangName, ...] = ("volcano", "none", "coscheduling")

#: kubectl's copy of the Job: as large as the Job, and wrong on any other object.
_NOT_INHERITED = "kubectl.kubernetes.io/last-applied-configuration"


class Gang:
    """No gang: the cluster's default scheduler places the pods one by one.

    The base of the other gangs. A plan has one and asks it for the scheduler, the marks of pods and the PodGroup. It
    asks no cluster: the controller chooses the gang.
    """

    def __init__(self, scheduler: str | None = None) -> None:
        self._scheduler = scheduler

    def scheduler_name(self, job: Job) -> str | None:
        """The scheduler of pods whose template names none; Volcano's is not running in this case."""
        requested = job.spec.scheduler_name or names.DEFAULT_SCHEDULER
        return self._scheduler if requested == names.DEFAULT_SCHEDULER else requested

    def mark_pod(self, job: Job, labels: dict[str, str], annotations: dict[str, str]) -> None:
        """Add the labels and annotations that assign the pod to its group."""

    def pod_group(
        self, job: Job, ready: Collection[str] | None, priorities: Mapping[str, int]
    ) -> dict[str, Any] | None:
        return None


class VolcanoGang(Gang):
    """The PodGroup of Volcano's scheduler."""

    def scheduler_name(self, job: Job) -> str | None:
        return job.spec.scheduler_name or names.DEFAULT_SCHEDULER

    def mark_pod(self, job: Job, labels: dict[str, str], annotations: dict[str, str]) -> None:
        annotations[names.GROUP_NAME] = names.pod_group_name(job)

    def pod_group(
        self, job: Job, ready: Collection[str] | None, priorities: Mapping[str, int]
    ) -> dict[str, Any] | None:
        members = Members(job, ready, priorities)
        spec: dict[str, Any] = {
            "minMember": members.min_member,
            "minTaskMember": members.min_task_member,
            "queue": names.queue(job),
            "minResources": members.min_resources,
        }
        if job.spec.priority_class_name:
            spec["priorityClassName"] = job.spec.priority_class_name
        if job.spec.network_topology:
            spec["networkTopology"] = job.spec.network_topology
        policies = [
            _sub_group(task, task.partition_policy)
            for task in members.tasks
            if task.partition_policy is not None
        ]
        if policies:
            spec["subGroupPolicy"] = policies
        return {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": names.pod_group_name(job), **_inherited(job)},
            "spec": spec,
        }


class CoschedulingGang(Gang):
    """The PodGroup of the coscheduling plugin of Kubernetes' scheduler."""

    def mark_pod(self, job: Job, labels: dict[str, str], annotations: dict[str, str]) -> None:
        labels[names.COSCHEDULING_GROUP] = names.short_pod_group_name(job)

    def pod_group(
        self, job: Job, ready: Collection[str] | None, priorities: Mapping[str, int]
    ) -> dict[str, Any] | None:
        members = Members(job, ready, priorities)
        spec: dict[str, Any] = {"minMember": members.min_member}
        resources = members.min_node_resources
        if resources:
            spec["minResources"] = resources
        return {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": names.short_pod_group_name(job), **_inherited(job)},
            "spec": spec,
        }


_BY_NAME: dict[str, type[Gang]] = {"volcano": VolcanoGang, "none": Gang, "coscheduling": CoschedulingGang}


def gang_named(name: GangName, scheduler: str | None = None) -> Gang:
    """The gang of that name; `scheduler` replaces Volcano's scheduler where that is not running."""
    return _BY_NAME[name](scheduler)


def _inherited(job: Job) -> dict[str, dict[str, str]]:
    annotations = {key: value for key, value in job.metadata.annotations.items() if key != _NOT_INHERITED}
    both = {"labels": dict(job.metadata.labels), "annotations": annotations}
    return {key: value for key, value in both.items() if value}


def _sub_group(task: Task, policy: PartitionPolicy) -> dict[str, Any]:
    group: dict[str, Any] = {
        "name": task.name,
        "labelSelector": {"matchLabels": {names.TASK_SPEC: task.name}},
        "matchLabelKeys": [names.PARTITION_ID],
        "subGroupSize": policy.partition_size,
        "minSubGroups": policy.min_partitions,
    }
    if policy.network_topology:
        group["networkTopology"] = policy.network_topology
    return group
