"""A guarded plugin is called exactly as a plugin is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.plugins.packages import job_with
from vcjob.plugins import registry
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.guard import guarded
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Problem


class Seen(Plugin[str]):
    """Records every call with its arguments."""

    name = "seen"
    order = 7

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def parse(self, arguments: Sequence[str]) -> tuple[str, list[Problem]]:
        self.calls.append(("parse", arguments))
        return "options", []

    def opens(self, options: str) -> dict[str, Sequence[str]]:
        self.calls.append(("opens", options))
        return {}

    def check(self, job: Job, options: str) -> list[Problem]:
        self.calls.append(("check", job, options))
        return []

    def shape(self, draft: PodDraft, options: str) -> None:
        self.calls.append(("shape", draft.task, draft.spec, options))

    def objects(self, job: Job, options: str) -> list[dict[str, Any]]:
        self.calls.append(("objects", job, options))
        return []


class SeenPerPod(Seen):
    def shape_pod(self, pod: dict[str, Any], task: Task, index: int, options: str) -> None:
        self.calls.append(("shape_pod", pod, task, index, options))


def test_a_guarded_plugin_is_given_all_that_a_plugin_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = SeenPerPod()
    plugin = guarded(seen, "other-name")
    assert (plugin.name, plugin.order) == ("other-name", 7)
    monkeypatch.setattr(registry, "_installed", lambda: {"other-name": plugin})
    job = job_with({"other-name": ["--x"]})
    task, spec = job.tasks[0], job.tasks[0].pod_spec
    list(registry.check_plugins(job))
    assert seen.calls == [
        ("parse", ("--x",)),
        ("opens", "options"),
        ("check", job, "options"),
        ("shape", task, spec, "options"),
    ]
    seen.calls.clear()
    plugin.objects(job, "options")
    plugin.shape_pod({"spec": {}}, task, 3, "options")
    assert seen.calls == [("objects", job, "options"), ("shape_pod", {"spec": {}}, task, 3, "options")]


def test_only_a_plugin_that_shapes_each_pod_is_asked_for_each() -> None:
    assert type(guarded(Seen(), "a")).shape_pod is Plugin.shape_pod
    assert type(guarded(SeenPerPod(), "a")).shape_pod is not Plugin.shape_pod
