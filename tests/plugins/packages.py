"""Packages with plugins that are installed during a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from vcjob.errors import UserError
from vcjob.plan.plan import Plan
from vcjob.plugins import registry
from vcjob.spec.job import Job
from vcjob.spec.problem import has_errors

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin-package"


def job_with(plugins: dict[str, list[str]], **pod: Any) -> Job:
    spec = {"containers": [{"name": "main", "image": "i"}], **pod}
    tasks = [{"name": "a", "replicas": 2, "template": {"spec": spec}}]
    return Job({"metadata": {"name": "job"}, "spec": {"tasks": tasks, "plugins": plugins}})


class Packages:
    """The packages that are installed during a test."""

    def ask(self, plugins: dict[str, list[str]], **pod: Any) -> dict[str, Any]:
        """The problems of a Job of one task `a` with these plugins, and its objects."""
        job = job_with(plugins, **pod)
        found = list(registry.check_plugins(job))
        said: dict[str, Any] = {"problems": [[p.severity, p.path, p.message, p.hint] for p in found]}
        if not has_errors(found):
            try:
                plan = Plan(job)
                said["objects"] = [obj["kind"] for obj in plan.objects()]
                said["pods"] = list(plan.pods())
            except UserError as refused:
                said["refused"] = [refused.message, refused.hint]
        return said


@contextmanager
def on_path(folder: Path) -> Iterator[Packages]:
    registry._installed.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.syspath_prepend(str(folder))
            yield Packages()
    finally:
        registry._installed.cache_clear()
