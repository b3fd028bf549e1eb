"""Hard limits of a Job: what keeps the work for one Job bounded, whoever wrote it.

`admit()` checks them first and looks no further where one is exceeded. The controller calls `check_limits`
as well, because a Job can reach it without the webhook. The functions read the raw document and accept any
JSON value in any place: the schema has not been checked yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from vcjob.spec.problem import Path, Problem, error

#: etcd stores objects of up to 1.5 MiB; the rest is for the status and the API server's own fields.
MAX_BYTES = 1024 * 1024
#: The status counts pods per task and must fit into etcd next to the spec. With the svc plugin every pod
#: also gets two variables per task.
MAX_TASKS = 2_000
#: The names in all `dependsOn` together; they are followed at every decision.
MAX_DEPENDENCIES = 10_000
#: Kubernetes supports 150,000 pods in one cluster.
MAX_REPLICAS = 150_000
#: Policies of the Job or of one task: there are 255 exit codes and 8 events.
MAX_POLICIES = 300
#: Volumes of the Job: each is mounted in every container.
MAX_VOLUMES = 100
#: Containers and init containers of one pod: each gets every injected variable and every volume of the Job.
MAX_CONTAINERS = 100

#: Plugins of a Job, and arguments of one plugin; the built-in plugins know ten flags at most.
MAX_PLUGINS = 50
MAX_ARGUMENTS = 100

#: Problems that a caller gets to see; the last one says how many more there are.
MAX_PROBLEMS = 100
#: Errors after which checking stops. Warnings are only counted: a later error still refuses the Job.
MAX_ERRORS = 1_000

_CONTAINERS = ("initContainers", "containers")
#: Parts of an object that the author of a Job does not write.
_NOT_COUNTED = frozenset({"status"})


def check_limits(doc: Mapping[str, Any]) -> list[Problem]:
    """Every hard limit that the Job exceeds; linear in the size of the document."""
    spec = _mapping(doc.get("spec"))
    return [*_size(doc), *_tasks(spec), *_job_lists(spec)]


def _size(doc: Mapping[str, Any]) -> Iterator[Problem]:
    written: dict[str, Any] = {key: value for key, value in doc.items() if key not in _NOT_COUNTED}
    metadata = written.get("metadata")
    if isinstance(metadata, dict):
        written["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    try:
        size = len(msgspec.json.encode(written))
    except RecursionError:
        yield error((), "the Job is nested too deeply", "no Job needs that many levels; check the brackets")
        return
    if size > MAX_BYTES:
        yield error(
            (),
            f"the Job has {size} bytes as JSON; at most {MAX_BYTES} are allowed, because etcd stores no more",
            "move large texts into a ConfigMap, or split the Job",
        )


def _tasks(spec: Mapping[str, Any]) -> Iterator[Problem]:
    tasks = [_mapping(task) for task in _list(spec.get("tasks"))]
    if len(tasks) > MAX_TASKS:
        yield error(
            ("spec", "tasks"),
            f"the Job has {len(tasks)} tasks; at most {MAX_TASKS} are allowed",
            "use `replicas` for pods that differ only in their index, or split the Job",
        )
        return
    edges = sum(len(_list(_mapping(task.get("dependsOn")).get("name"))) for task in tasks)
    if edges > MAX_DEPENDENCIES:
        yield error(
            ("spec", "tasks"),
            f"the tasks have {edges} names in dependsOn; at most {MAX_DEPENDENCIES} are allowed",
            "let tasks depend on one task that depends on the others",
        )
    replicas = sum(_count(task.get("replicas")) for task in tasks)
    if replicas > MAX_REPLICAS:
        yield error(
            ("spec", "tasks"),
            f"the Job has {replicas} pods; at most {MAX_REPLICAS} are allowed, as many as one cluster can run",
            "check the replicas of every task",
        )
    for number, task in enumerate(tasks):
        where: Path = ("spec", "tasks", number)
        yield from _length(task.get("policies"), (*where, "policies"), "policies", MAX_POLICIES)
        pod = _mapping(_mapping(task.get("template")).get("spec"))
        containers = sum(len(_list(pod.get(kind))) for kind in _CONTAINERS)
        if containers > MAX_CONTAINERS:
            yield _too_many((*where, "template", "spec"), "containers", containers, MAX_CONTAINERS)


def _job_lists(spec: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _length(spec.get("policies"), ("spec", "policies"), "policies", MAX_POLICIES)
    yield from _length(spec.get("volumes"), ("spec", "volumes"), "volumes", MAX_VOLUMES)
    plugins = _mapping(spec.get("plugins"))
    if len(plugins) > MAX_PLUGINS:
        yield _too_many(("spec", "plugins"), "plugins", len(plugins), MAX_PLUGINS)
        return
    for name, arguments in plugins.items():
        yield from _length(arguments, ("spec", "plugins", name), "arguments", MAX_ARGUMENTS)


def _length(value: object, where: Path, what: str, limit: int) -> Iterator[Problem]:
    if len(_list(value)) > limit:
        yield _too_many(where, what, len(_list(value)), limit)


def _too_many(where: Path, what: str, count: int, limit: int) -> Problem:
    return error(where, f"there are {count} {what}; at most {limit} are allowed", f"remove {count - limit}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int:
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0
