"""Hard limits of a Job: what keeps the work for one Job bounded, whoever wrote it.

`admit()` checks them first and looks no further where one is exceeded. The controller calls `check_limits`
as well, because a Job can reach it without the webhook. The functions read the raw document and accept any
JSON value in any place: the schema has not been checked yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from vcjob.spec.document import MAX_DEPTH, too_deep
from vcjob.spec.duration import MAX_LENGTH
from vcjob.spec.problem import Path, Problem, error


class Limit(NamedTuple):
    """One limit as the reference page shows it."""

    what: str
    number: int
    reason: str


#: All limits, for the page docs/reference/limits.md.
LIMITS: list[Limit] = []


def _limit(what: str, number: int, reason: str) -> int:
    LIMITS.append(Limit(what, number, reason))
    return number


MAX_BYTES = _limit(
    "Bytes of a Job as JSON, without its status",
    1024 * 1024,
    "etcd stores objects of up to 1.5 MiB; the rest is for the status and the API server's own fields.",
)
MAX_STORED = _limit(
    "Bytes of a Job as JSON, with three times the name and 250 bytes for each task, and 6 bytes for each pod",
    1536 * 1024 - 64 * 1024,
    "etcd stores objects of up to 1.5 MiB, and the status names each task several times and says which pods were lost.",
)
#: What the status says of one task in addition to its name, which it repeats, and of one pod.
_NAMES_IN_STATUS, _STATUS_BYTES, _POD_BYTES = 3, 250, 6
MAX_TASKS = _limit(
    "Tasks of a Job",
    2_000,
    "The status counts pods per task and must fit into etcd next to the spec; the plugin `svc` also gives every"
    " pod two variables per task.",
)
MAX_DEPENDENCIES = _limit(
    "Names in all `dependsOn` of a Job together", 10_000, "They are followed at every decision about the Job."
)
MAX_REPLICAS = _limit(
    "Pods of a Job (`replicas` of all tasks)",
    150_000,
    "Kubernetes supports 150,000 pods in one cluster.",
)
MAX_POLICIES = _limit("Policies of a Job or of one task", 300, "There are 255 exit codes and 8 events.")
MAX_VOLUMES = _limit("`spec.volumes` of a Job", 100, "Each is mounted in every container.")
MAX_CONTAINERS = _limit(
    "Containers and init containers of one pod",
    100,
    "Each gets every variable that the plugins set and every volume of the Job.",
)
MAX_PLUGINS = _limit("Plugins of a Job", 50, "vcjob has three; the others come from installed packages.")
MAX_ARGUMENTS = _limit("Arguments of one plugin", 100, "The built-in plugins know eleven flags at most.")

_limit(
    "Characters of a duration (`timeout` of a policy, `runningEstimate`)",
    MAX_LENGTH,
    "The longest duration that Go can represent, `2562047h47m16.854775807s`, has 24.",
)
_limit("Levels of nesting in a Job", MAX_DEPTH, "The deepest field of a pod template has about 20.")

#: Problems that a caller gets to see; the last one says how many more there are.
MAX_PROBLEMS = 100
#: Errors after which checking stops. Warnings are only counted: a later error still refuses the Job.
MAX_ERRORS = 1_000

_CONTAINERS = ("initContainers", "containers")
#: Parts of an object that the author of a Job does not write.
_NOT_COUNTED = frozenset({"status"})


def check_limits(doc: Mapping[str, Any]) -> list[Problem]:
    """Every hard limit that the Job exceeds; linear in the size of the document."""
    if _is_too_deep(doc):
        return [too_deep(())]
    spec = _mapping(doc.get("spec"))
    return [*_size(doc), *_tasks(spec), *_job_lists(spec)]


def _is_too_deep(doc: Mapping[str, Any]) -> bool:
    level: list[Any] = [doc]
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, (dict, list))
        ]
    return bool(level)


def _size(doc: Mapping[str, Any]) -> Iterator[Problem]:
    written: dict[str, Any] = {key: value for key, value in doc.items() if key not in _NOT_COUNTED}
    metadata = written.get("metadata")
    if isinstance(metadata, dict):
        written["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    size = len(msgspec.json.encode(written))
    if size > MAX_BYTES:
        yield error(
            (),
            f"the Job has {size} bytes as JSON; at most {MAX_BYTES} are allowed, because etcd stores no more",
            "move large texts into a ConfigMap, or split the Job",
        )
        return
    tasks = [_mapping(task) for task in _list(_mapping(doc.get("spec")).get("tasks"))]
    pods = min(sum(_count(task.get("replicas")) for task in tasks), MAX_REPLICAS)
    stored = size + sum(map(_status_bytes, tasks)) + _POD_BYTES * pods
    if stored > MAX_STORED:
        yield error(
            (),
            f"the Job and its status would have about {stored} bytes; at most {MAX_STORED} are allowed, because etcd"
            " stores no more",
            "use `replicas` for pods that differ only in their index, shorten the names of the tasks, or split the Job",
        )


def _status_bytes(task: Mapping[str, Any]) -> int:
    """About how many bytes the status takes for a task, its pods apart."""
    name = task.get("name")
    return _STATUS_BYTES + (
        _NAMES_IN_STATUS * len(name.encode(errors="replace")) if isinstance(name, str) else 0
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
