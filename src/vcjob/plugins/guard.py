"""Wraps third-party plugins, so that an exception inside one becomes a problem or a UserError, never a traceback.

`plugins.registry` wraps every plugin that it loads from an entry point; built-in plugins are not wrapped. The message
names the plugin and what it was doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vcjob.errors import UserError
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Problem, error
from vcjob.spec.wording import show


class _Guarded(Plugin[Any]):
    """Forwards every call. In `parse` and `check` a failure is a problem of the Job, elsewhere a UserError."""

    def __init__(self, plugin: Plugin[Any], name: str) -> None:
        self.plugin = plugin
        # The name of the entry point counts, and the order of the plugin.
        self.name = name  # type: ignore[misc]  # a class variable of all other plugins
        self.order = plugin.order  # type: ignore[misc]  # the same

    def parse(self, arguments: Sequence[str]) -> tuple[Any, list[Problem]]:
        try:
            options, problems = self.plugin.parse(arguments)
            return options, _problems(problems)
        except Exception as cause:
            return None, [error((), *self._failed("parsing its arguments", cause))]

    def opens(self, options: Any) -> Mapping[str, Sequence[str]]:
        try:
            return _arguments_by_plugin(self.plugin.opens(options))
        except Exception as cause:
            raise self._error("listing the plugins that it requires", cause) from cause

    def check(self, job: Job, options: Any) -> Iterable[Problem]:
        try:
            return _problems(self.plugin.check(job, options))
        except Exception as cause:
            return [error(("spec", "plugins", self.name), *self._failed("checking the Job", cause))]

    def shape(self, draft: PodDraft, options: Any) -> None:
        try:
            self.plugin.shape(draft, options)
        except Exception as cause:
            raise self._error(f"shaping the pods of task `{draft.task.name}`", cause) from cause

    def objects(self, job: Job, options: Any) -> Iterable[dict[str, Any]]:
        try:
            return list(self.plugin.objects(job, options))
        except Exception as cause:
            raise self._error("creating its objects", cause) from cause

    def _failed(self, doing: str, cause: Exception) -> tuple[str, str]:
        return (
            f"the plugin `{self.name}` failed while {doing}: {type(cause).__name__}: {cause}",
            "this is an error in the plugin: fix it, or remove it from spec.plugins",
        )

    def _error(self, doing: str, cause: Exception) -> UserError:
        message, hint = self._failed(doing, cause)
        return UserError(message, hint=hint)


class _GuardedPerPod(_Guarded):
    """For plugins that override `shape_pod`: the plan calls it only where it is overridden."""

    def shape_pod(self, pod: dict[str, Any], task: Task, index: int, options: Any) -> None:
        try:
            self.plugin.shape_pod(pod, task, index, options)
        except Exception as cause:
            raise self._error(f"shaping pod {index} of task `{task.name}`", cause) from cause


def _problems(found: Iterable[object]) -> list[Problem]:
    problems = []
    for each in found:
        if not isinstance(each, Problem):
            raise TypeError(f"expected a Problem, got {type(each).__name__}")
        problems.append(each)
    return problems


def _arguments_by_plugin(found: Mapping[Any, Any]) -> dict[str, Sequence[str]]:
    for name, arguments in found.items():
        listed = isinstance(arguments, Sequence) and not isinstance(arguments, str)
        if not listed or not all(isinstance(text, str) for text in (name, *arguments)):
            raise TypeError(f"expected lists of texts by the name of the plugin, got {show(found)}")
    return dict(found)


def guarded(plugin: Plugin[Any], name: str) -> Plugin[Any]:
    per_pod = type(plugin).shape_pod is not Plugin.shape_pod
    return _GuardedPerPod(plugin, name) if per_pod else _Guarded(plugin, name)
