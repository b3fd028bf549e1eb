"""The defaults of a Job, as Volcano fills them in.

`admit` applies them before the checks; the controller applies them to Jobs that it takes over. The given
document is not changed: the parts that differ are copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

QUEUE = "default"
SCHEDULER = "volcano"
MAX_RETRY = 3
TASK_NAME = "default"


def apply(doc: dict[str, Any]) -> dict[str, Any]:
    """The document with its defaults; a document that has them is returned unchanged."""
    spec = dict(doc.get("spec") or {})
    spec["tasks"] = [_task(index, task) for index, task in enumerate(spec.get("tasks") or [])]
    _fill(spec, "minAvailable", sum(task["minAvailable"] for task in spec["tasks"]), empty=0)
    _fill(spec, "queue", QUEUE, empty="")
    _fill(spec, "schedulerName", SCHEDULER, empty="")
    _fill(spec, "maxRetry", MAX_RETRY)
    return {**doc, "spec": spec}


def _task(index: int, task: dict[str, Any]) -> dict[str, Any]:
    task = dict(task)
    _fill(task, "name", f"{TASK_NAME}{index}", empty="")
    _fill(task, "replicas", 0)
    _fill(task, "minAvailable", _default_min_available(task), empty=0)
    _fill(task, "maxRetry", MAX_RETRY)
    template = task.get("template") or {}
    pod = template.get("spec") or {}
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        # With the default policy, a pod on the host's network cannot resolve the names of the Job's pods.
        task["template"] = {**template, "spec": {**pod, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return task


def _default_min_available(task: dict[str, Any]) -> int:
    partitions = task.get("partitionPolicy") or {}
    least: int = (partitions.get("minPartitions") or 0) * (partitions.get("partitionSize") or 0)
    return least or task["replicas"]


def _fill(mapping: dict[str, Any], key: str, value: Any, *, empty: Any = None) -> None:
    """Set a key that is absent, null or `empty`. Types are compared too, because False equals 0 in Python."""
    present = mapping.get(key)
    if present is None or (present == empty and type(present) is type(empty)):
        mapping[key] = value


def open_forced_plugins(doc: dict[str, Any], opened: Iterable[tuple[Any, Any]]) -> bool:
    """Add the plugins that other plugins require, each with an empty list of arguments, as Volcano does.

    False: the document has all of them."""
    plugins = doc["spec"].get("plugins") or {}
    added: dict[str, list[str]] = {plugin.name: [] for plugin, _ in opened if plugin.name not in plugins}
    if added:
        doc["spec"]["plugins"] = {**plugins, **added}
    return bool(added)
