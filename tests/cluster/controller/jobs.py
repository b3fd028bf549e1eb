"""Jobs for the tests of the controller; their pods run on fake nodes."""

from __future__ import annotations

from typing import Any

from tests.documents import job
from tests.testbed.parts.fake_nodes import COMPLETE_AFTER, FAIL_WITH

__all__ = ["job", "task", "trio"]

Object = dict[str, Any]


def task(
    name: str, replicas: int, *, after: str | None = "1s", code: int | None = None, **fields: Any
) -> Object:
    """Pods that run for `after` and then end, with exit code `code` if given; with `after` None they run on."""
    annotations = {COMPLETE_AFTER: after} if after else {}
    if code is not None:
        annotations[FAIL_WITH] = str(code)
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"type": "fake"},
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.36.1",
                "command": ["true"],
                "resources": {"requests": {"cpu": "10m"}},
            }
        ],
        **fields.pop("pod", {}),
    }
    return {
        "name": name,
        "replicas": replicas,
        "template": {"metadata": {"annotations": annotations}, "spec": pod},
        **fields,
    }


def trio(name: str, after: str | None = "1s", **spec: Any) -> Object:
    """A master and two workers that find each other."""
    spec.setdefault("plugins", {"pytorch": [], "env": []})
    return job(name, task("master", 1, after=after), task("worker", 2, after=after), **spec)
