"""The SDK: the names that `import vcjob` offers, each loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.sdk.building import pytorch_job
    from vcjob.sdk.explaining import explain
    from vcjob.sdk.finding import find, jobs
    from vcjob.sdk.handle import Handle, LogLine
    from vcjob.sdk.loading import Loaded, load, validate
    from vcjob.sdk.rendering import render
    from vcjob.sdk.running import run
    from vcjob.sdk.scripting import script_job
    from vcjob.sdk.yaml_text import to_yaml
    from vcjob.spec.field_docs import FieldDoc
    from vcjob.spec.job import Job
    from vcjob.spec.problem import Problem

__all__ = [
    "FieldDoc",
    "Handle",
    "Job",
    "Loaded",
    "LogLine",
    "Problem",
    "explain",
    "find",
    "jobs",
    "load",
    "pytorch_job",
    "render",
    "run",
    "script_job",
    "to_yaml",
    "validate",
]

_MODULES = {
    "FieldDoc": "vcjob.spec.field_docs",
    "Handle": "vcjob.sdk.handle",
    "Job": "vcjob.spec.job",
    "Loaded": "vcjob.sdk.loading",
    "LogLine": "vcjob.sdk.handle",
    "Problem": "vcjob.spec.problem",
    "explain": "vcjob.sdk.explaining",
    "find": "vcjob.sdk.finding",
    "jobs": "vcjob.sdk.finding",
    "load": "vcjob.sdk.loading",
    "pytorch_job": "vcjob.sdk.building",
    "render": "vcjob.sdk.rendering",
    "run": "vcjob.sdk.running",
    "script_job": "vcjob.sdk.scripting",
    "to_yaml": "vcjob.sdk.yaml_text",
    "validate": "vcjob.sdk.loading",
}


if not TYPE_CHECKING:  # a type checker sees the imports above, and an unknown name is an error to it

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
