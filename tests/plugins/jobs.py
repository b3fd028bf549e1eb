"""Small Jobs for the tests of the plugins, and helpers to shape and check them."""

from __future__ import annotations

import json
import re
from typing import Any

from vcjob.plugins.base import PodDraft
from vcjob.plugins.registry import check_plugins, open_plugins
from vcjob.spec.job import Job

NAME = "test-pytorch"
MARK = "\u241f"


def task(
    name: str, replicas: int = 1, *, metadata: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "img:1"}], **spec}
    template: dict[str, Any] = {"spec": pod}
    if metadata is not None:
        template["metadata"] = metadata
    return {"name": name, "replicas": replicas, "template": template}


def job(*tasks: dict[str, Any], name: str = NAME, **plugins: Any) -> Job:
    return Job(
        {"metadata": {"name": name}, "spec": {"tasks": list(tasks), "plugins": plugins or {"pytorch": []}}}
    )


class Pod:
    """One pod as the plugins leave it, its index filled in. `env` is what they inject, by name."""

    def __init__(self, of: Job, task_name: str, index: int) -> None:
        found = of.task(task_name)
        assert found is not None
        template = {"metadata": found.template.get("metadata") or {}, "spec": found.pod_spec}
        draft = PodDraft(of, found, json.loads(json.dumps(template)), MARK)
        for plugin, options in open_plugins(of):
            plugin.shape(draft, options)
        self.pod: dict[str, Any] = self._filled(draft.pod, index)
        self.spec: dict[str, Any] = self.pod["spec"]
        injected: dict[str, dict[str, Any]] = self._filled(draft.injected, index)
        self.injected = injected
        self.env = {name: entry["value"] for name, entry in injected.items() if "value" in entry}

    def container(self, name: str) -> dict[str, Any]:
        everything = [*self.spec.get("initContainers", []), *self.spec["containers"]]
        (found,) = (container for container in everything if container["name"] == name)
        return dict(found)

    @staticmethod
    def _filled(value: Any, index: int) -> Any:
        def number(found: re.Match[str]) -> str:
            return str(int(found[2]) + (index if found[1] == "index" else 0))

        return json.loads(
            re.sub(f"{MARK}([a-z]+):([0-9]+){MARK}", number, json.dumps(value, ensure_ascii=False))
        )


def problems(of: Job) -> list[tuple[str, str, str, str | None]]:
    """Severity, path, message and hint of every problem that the plugins report."""
    return [(p.severity, p.path, p.message, p.hint) for p in check_plugins(of)]
