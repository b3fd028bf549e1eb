"""Checks of topology: NUMA policies, partitions and network tiers.

`admission.review` calls `check`. Only the Job itself is known here: whether a cluster has such nodes or tiers shows
when its scheduler places the pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcjob.spec import quantity
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path, Problem, error


def check(job: Job) -> Iterator[Problem]:
    yield from _tiers(job.spec.network_topology, ("spec", "networkTopology"))
    for number, task in enumerate(job.tasks):
        where: Path = ("spec", "tasks", number)
        yield from _partitions(task, where)
        if task.topology_policy not in (None, "", "none"):
            yield from _whole_cpus(task, number)


def _tiers(topology: Mapping[str, Any] | None, where: Path) -> Iterator[Problem]:
    if topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        yield error(
            (*where, "highestTierName"),
            "the highest tier is set twice, by highestTierAllowed and by highestTierName",
            "remove one of them",
        )


def _partitions(task: Task, where: Path) -> Iterator[Problem]:
    policy = task.partition_policy
    if policy is None:
        return
    place = (*where, "partitionPolicy")
    yield from _tiers(policy.network_topology, (*place, "networkTopology"))
    pods = policy.total_partitions * policy.partition_size
    if pods != task.replicas:
        yield error(
            place,
            f"{policy.total_partitions} partitions of {policy.partition_size} are {pods} pods, but replicas is {task.replicas}",
            "totalPartitions × partitionSize must be equal to replicas",
        )
    least = policy.min_partitions * policy.partition_size
    if policy.min_partitions > policy.total_partitions:
        yield error(
            (*place, "minPartitions"),
            f"minPartitions is {policy.min_partitions}, but there are only {policy.total_partitions}",
            f"write at most {policy.total_partitions}",
        )
    elif least and task.min_available != least:
        yield error(
            (*where, "minAvailable"),
            f"minAvailable is {task.min_available}, but {policy.min_partitions} partitions of {policy.partition_size} are {least} pods",
            f"remove minAvailable, or write {least}",
        )


def _whole_cpus(task: Task, number: int) -> Iterator[Problem]:
    for where, container in task.containers(number):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        cpu = requests.get("cpu")
        cpu = (
            limits.get("cpu") if cpu is None else cpu
        )  # Kubernetes requests the limit where there is no request
        if not _is_whole(cpu):
            yield error(
                (*where, "resources"),
                f"topologyPolicy `{task.topology_policy}` needs whole CPUs, but this container requests {cpu or 'none'}",
                "request a whole number of CPUs, such as `cpu: 4`",
            )


def _is_whole(cpu: Any) -> bool:
    try:
        nano = quantity.parse(cpu).nano if cpu is not None else 0
    except ValueError:
        return True  # the schema check has reported it
    return nano > 0 and nano % quantity.NANO == 0
