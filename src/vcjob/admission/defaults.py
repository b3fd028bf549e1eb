"""What a Job means where it is silent. The document given is left alone; the changed parts are copied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

QUEUE = "default"
SCHEDULER = "volcano"
MAX_RETRY = 3
TASK_NAME = "default"


def apply(doc: dict[str, Any]) -> dict[str, Any]:
    """The document with its defaults. Applied twice, it changes nothing."""
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
    _fill(task, "minAvailable", _least(task), empty=0)
    _fill(task, "maxRetry", MAX_RETRY)
    template = task.get("template") or {}
    pod = template.get("spec") or {}
    if pod.get("hostNetwork") and not pod.get("dnsPolicy"):
        # With the default policy a pod on the host's network could not resolve the Job's own names.
        task["template"] = {**template, "spec": {**pod, "dnsPolicy": "ClusterFirstWithHostNet"}}
    return task


def _least(task: dict[str, Any]) -> int:
    partitions = task.get("partitionPolicy") or {}
    least: int = (partitions.get("minPartitions") or 0) * (partitions.get("partitionSize") or 0)
    return least or task["replicas"]


def _fill(mapping: dict[str, Any], key: str, value: Any, *, empty: Any = None) -> None:
    """Set a key that is absent or null, or has the value that counts as absent (`False` is no 0 here)."""
    present = mapping.get(key)
    if present is None or (present == empty and type(present) is type(empty)):
        mapping[key] = value


def open_forced_plugins(doc: dict[str, Any], opened: Iterable[tuple[Any, Any]]) -> None:
    """Write down the plugins that others force on, each with an empty list, as Volcano does."""
    plugins = dict(doc["spec"].get("plugins") or {})
    for plugin, _ in opened:
        plugins.setdefault(plugin.name, [])
    if plugins:
        doc["spec"]["plugins"] = plugins
