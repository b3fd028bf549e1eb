"""The documentation of the fields of a Job, by path.

`DOCUMENTED` is the only place where a field of a Job is described; docs/reference/job.md is generated from it,
and `field_doc` answers for one path, as `kubectl explain` does. Types come from the schema. The fields of pod
templates and claims are Kubernetes' own, so only their type and the name of Kubernetes' field are given.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from vcjob.spec.schema import job_schema
from vcjob.spec.spelling import Vocabulary
from vcjob.spec.wording import resolved

_POLICY = (
    ("action", "What to do: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob,"
     " CompleteJob or ResumeJob.", None),
    ("event", "When to do it: PodFailed, PodEvicted, PodPending (with `timeout`), Unknown, TaskCompleted,"
     " TaskFailed, JobUpdated, or `*` for every event.", None),
    ("events", "Several events; a policy has `event`, `events` or `exitCode`.", None),
    ("exitCode", "The exit code of a container that triggers the action; not 0.", None),
    ("timeout", "How long the cause must last before the action is taken.", "at once"),
)  # fmt: skip
_TOPOLOGY = (
    ("mode", "`hard`: the pods wait until they fit into the tier; `soft`: they are placed as near as possible.",
     "hard"),
    ("highestTierAllowed", "The highest network tier that the pods may span, as a number.", None),
    ("highestTierName", "The same by the name of the tier; only one of the two may be set.", None),
)  # fmt: skip
_OWN: tuple[tuple[str, str, str | None], ...] = (
    ("apiVersion", "`batch.volcano.sh/v1alpha1`.", None),
    ("kind", "`Job`.", None),
    ("metadata", "Name, namespace, labels and annotations of the Job.", None),
    ("spec", "What to run.", None),
    ("status", "Written by the controller; not part of a file.", None),
    ("spec.schedulerName", "The scheduler of pods whose template names none.", "volcano"),
    ("spec.minAvailable", "How many pods must be able to run for the Job to start, and how many must succeed.",
     "the sum over the tasks"),
    ("spec.volumes", "Volumes that are mounted in every container.", None),
    ("spec.volumes.mountPath", "Where the containers see the volume.", None),
    ("spec.volumes.volumeClaimName", "An existing claim.", None),
    ("spec.volumes.volumeClaim", "A new claim, which the Job owns.", None),
    ("spec.tasks", "The tasks of the Job; each has pods that differ in their index only.", None),
    ("spec.tasks.name", "The name of the task, part of the names of its pods.", "`default` and the number of the task"),
    ("spec.tasks.replicas", "The number of pods.", "0"),
    ("spec.tasks.minAvailable", "How many pods of this task must be able to run.", "`replicas`"),
    ("spec.tasks.template", "The template of the pods.", None),
    ("spec.tasks.policies", "What to do when something happens to pods of this task; these go before the Job's.", None),
    ("spec.tasks.topologyPolicy", "The NUMA policy: none, best-effort, restricted or single-numa-node.", "none"),
    ("spec.tasks.maxRetry", "How many restarts of the containers of this task make it fail (TaskFailed).", "3"),
    ("spec.tasks.dependsOn", "Tasks that must run before the pods of this task are created.", None),
    ("spec.tasks.dependsOn.name", "The names of these tasks.", None),
    ("spec.tasks.dependsOn.iteration", "Whether `any` or `all` of them are needed.", "all"),
    ("spec.tasks.partitionPolicy", "Divides the pods into partitions of equal size.", None),
    ("spec.tasks.partitionPolicy.totalPartitions", "The number of partitions.", None),
    ("spec.tasks.partitionPolicy.partitionSize", "The number of pods of each partition.", None),
    ("spec.tasks.partitionPolicy.minPartitions", "How many partitions must be able to run.", "0"),
    ("spec.tasks.partitionPolicy.networkTopology", "Where the pods of one partition are placed.", None),
    ("spec.policies", "What to do when something happens to pods of any task.", None),
    ("spec.plugins", "The plugins of the Job: each name with its list of arguments.", None),
    ("spec.runningEstimate", "How long the Job is expected to run; for schedulers.", None),
    ("spec.queue", "The queue of the Job, where the cluster has queues.", "default"),
    ("spec.maxRetry", "How many times the Job may run in all: 3 means two restarts, 0 and 1 mean none.", "3"),
    ("spec.ttlSecondsAfterFinished", "How long the Job is kept after its end.", "without end"),
    ("spec.priorityClassName", "The priority class of pods whose template names none.", None),
    ("spec.minSuccess", "The Job is Completed as soon as this many pods have succeeded.", "all pods must end"),
    ("spec.networkTopology", "Where the pods of the Job are placed.", None),
    ("spec.suspend", "Whether the Job is suspended: its running pods are deleted until it is resumed. An extension of vcjob.",
     "false"),
    ("spec.activeDeadlineSeconds", "How long the Job may run before it fails. An extension of vcjob.", "no limit"),
)  # fmt: skip
#: Every documented field: path, meaning, default.
DOCUMENTED: tuple[tuple[str, str, str | None], ...] = (
    *_OWN,
    *((f"{place}.{name}", *rest) for place in ("spec.policies", "spec.tasks.policies") for name, *rest in _POLICY),
    *(
        (f"{place}.{name}", *rest)
        for place in ("spec.networkTopology", "spec.tasks.partitionPolicy.networkTopology")
        for name, *rest in _TOPOLOGY
    ),
)  # fmt: skip
#: Fields whose inner fields are Kubernetes' own, with the name by which `kubectl explain` knows them.
_KUBERNETES = {
    "metadata": "pod.metadata",
    "spec.volumes.volumeClaim": "pvc.spec",
    "spec.tasks.template": "pod",
}
_INDEX = re.compile(r"\[\d*\]")


class FieldDoc(NamedTuple):
    """One field: its path without indexes, its type, meaning and default, and the names of its own fields.

    `vcjob.explain()` returns it; the reference of the Job is generated from all of them.
    """

    path: str
    type: str
    meaning: str
    default: str | None
    fields: tuple[str, ...]


def field_doc(path: str) -> FieldDoc | None:
    """The documentation of a field such as `spec.tasks[0].policies`; None if the schema has no such field."""
    path = _INDEX.sub("", path).strip(".")
    node = _node(path)
    if node is None:
        return None
    names = tuple(sorted(_properties(node)))
    for known, meaning, default in DOCUMENTED:
        if known == path:
            return FieldDoc(path, _type(node), meaning, default, names)
    for prefix, kubernetes in _KUBERNETES.items():
        if path.startswith(f"{prefix}."):
            name = f"{kubernetes}{path.removeprefix(prefix)}"
            return FieldDoc(
                path, _type(node), f"A field of Kubernetes: `kubectl explain {name}`.", None, names
            )
    raise AssertionError(f"{path} is not documented")


def nearest_path(path: str) -> str | None:
    """The documented path that was probably meant."""
    wrong = _INDEX.sub("", path).strip(".")
    paths = [known for known, _, _ in DOCUMENTED]
    by_last_name = [known for known in paths if known.rpartition(".")[2] == wrong.rpartition(".")[2]]
    return min(by_last_name, key=lambda known: known.count("."), default=None) or Vocabulary(paths).nearest(
        wrong
    )


def own_paths() -> list[str]:
    """Every field of the schema that is not Kubernetes' own: the fields that must be documented."""
    found: list[str] = []
    waiting = [""]
    while waiting:
        path = waiting.pop()
        for name in _properties(_node(path) or {}):
            inner = f"{path}.{name}" if path else name
            found.append(inner)
            if inner not in _KUBERNETES:
                waiting.append(inner)
    return found


def _node(path: str) -> dict[str, Any] | None:
    node = job_schema()
    for name in path.split(".") if path else ():
        properties = _properties(node)
        if name not in properties:
            return None
        node = properties[name]
    return node


def _properties(node: dict[str, Any]) -> dict[str, Any]:
    """The fields of a mapping, or of the items of a list."""
    node = resolved(job_schema(), node)
    if "items" in node:
        node = resolved(job_schema(), node["items"])
    found: dict[str, Any] = node.get("properties") or {}
    return found


def _type(node: dict[str, Any]) -> str:
    node = resolved(job_schema(), node)
    types = node.get("type", "object")
    name = next(kind for kind in ([types] if isinstance(types, str) else types) if kind != "null")
    if name == "array":
        return f"list of {_type(node['items'])}"
    return {"object": "mapping"}.get(name, name)
