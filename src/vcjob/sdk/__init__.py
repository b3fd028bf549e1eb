"""The SDK: the names that `import vcjob` offers, each loaded when it is first used.

`vcjob/__init__.py` and the verbs of the command line import from here. The modules behind the names are loaded
lazily, so that a program or a verb pays only for what it uses. A new name needs an entry in `__all__` and in
`_MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.diagnosis.finding import Finding
    from vcjob.lifecycle.status import Phase, Status
    from vcjob.report.failure import Culprit, FailureReport
    from vcjob.report.logs import LogFilter
    from vcjob.report.podstate import ContainerState, PodState
    from vcjob.sdk.async_functions import find_async, run_async
    from vcjob.sdk.authoring.building import pytorch_job
    from vcjob.sdk.authoring.convert import Converted, convert_jobs
    from vcjob.sdk.authoring.explaining import explain
    from vcjob.sdk.authoring.scripting import script_job
    from vcjob.sdk.finding import find, jobs
    from vcjob.sdk.handle import Handle, LogLine
    from vcjob.sdk.loading import Loaded, load, validate
    from vcjob.sdk.rendering import render
    from vcjob.sdk.running import run
    from vcjob.sdk.waiting import as_completed, as_completed_async, wait_all, wait_all_async
    from vcjob.sdk.watching import watch
    from vcjob.sdk.yaml_text import to_yaml
    from vcjob.spec.field_docs import FieldDoc
    from vcjob.spec.job import Job
    from vcjob.spec.problem import Problem

__all__ = [
    "ContainerState",
    "Converted",
    "Culprit",
    "FailureReport",
    "FieldDoc",
    "Finding",
    "Handle",
    "Job",
    "Loaded",
    "LogFilter",
    "LogLine",
    "Phase",
    "PodState",
    "Problem",
    "Status",
    "as_completed",
    "as_completed_async",
    "convert_jobs",
    "explain",
    "find",
    "find_async",
    "jobs",
    "load",
    "pytorch_job",
    "render",
    "run",
    "run_async",
    "script_job",
    "to_yaml",
    "validate",
    "wait_all",
    "wait_all_async",
    "watch",
]

_MODULES = {
    "convert_jobs": "vcjob.sdk.authoring.convert",
    "Converted": "vcjob.sdk.authoring.convert",
    "Phase": "vcjob.lifecycle.status",
    "Status": "vcjob.lifecycle.status",
    "LogFilter": "vcjob.report.logs",
    "Culprit": "vcjob.report.failure",
    "FailureReport": "vcjob.report.failure",
    "ContainerState": "vcjob.report.podstate",
    "PodState": "vcjob.report.podstate",
    "find_async": "vcjob.sdk.async_functions",
    "run_async": "vcjob.sdk.async_functions",
    "wait_all_async": "vcjob.sdk.waiting",
    "wait_all": "vcjob.sdk.waiting",
    "as_completed_async": "vcjob.sdk.waiting",
    "as_completed": "vcjob.sdk.waiting",
    "FieldDoc": "vcjob.spec.field_docs",
    "Finding": "vcjob.diagnosis.finding",
    "Handle": "vcjob.sdk.handle",
    "Job": "vcjob.spec.job",
    "Loaded": "vcjob.sdk.loading",
    "LogLine": "vcjob.sdk.handle",
    "Problem": "vcjob.spec.problem",
    "explain": "vcjob.sdk.authoring.explaining",
    "find": "vcjob.sdk.finding",
    "jobs": "vcjob.sdk.finding",
    "load": "vcjob.sdk.loading",
    "pytorch_job": "vcjob.sdk.authoring.building",
    "render": "vcjob.sdk.rendering",
    "run": "vcjob.sdk.running",
    "script_job": "vcjob.sdk.authoring.scripting",
    "to_yaml": "vcjob.sdk.yaml_text",
    "validate": "vcjob.sdk.loading",
    "watch": "vcjob.sdk.watching",
}


if not TYPE_CHECKING:  # a type checker sees the imports above, and an unknown name is an error to it

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
