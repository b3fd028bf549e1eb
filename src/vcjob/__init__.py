"""Run Volcano PyTorch Jobs from one unchanged file: on this machine as processes, on Kubernetes as pods.

::

    import vcjob

    job = vcjob.pytorch_job("hello", script="train.py", workers=3)
    for problem in vcjob.validate(job):
        print(problem.path, problem.message)
    objects = vcjob.render("job.yaml")

Nothing heavy is imported until a name is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vcjob._version import __version__
from vcjob.errors import (
    BackendError,
    Denied,
    Interrupted,
    InvalidJob,
    JobExists,
    JobFailed,
    NoSuchJob,
    RunDamaged,
    SourceError,
    StoreError,
    UserError,
    VcjobError,
    WaitTimeout,
)

if TYPE_CHECKING:
    from vcjob.sdk import (
        ContainerState,
        Converted,
        Culprit,
        FailureReport,
        FieldDoc,
        Finding,
        Handle,
        Job,
        Loaded,
        LogFilter,
        LogLine,
        Phase,
        PodState,
        Problem,
        Status,
        as_completed,
        as_completed_async,
        convert_jobs,
        explain,
        find,
        find_async,
        jobs,
        load,
        pytorch_job,
        render,
        run,
        run_async,
        script_job,
        to_yaml,
        validate,
        wait_all,
        wait_all_async,
        watch,
    )

__all__ = [
    "BackendError",
    "ContainerState",
    "Converted",
    "Culprit",
    "Denied",
    "FailureReport",
    "FieldDoc",
    "Finding",
    "Handle",
    "Interrupted",
    "InvalidJob",
    "Job",
    "JobExists",
    "JobFailed",
    "Loaded",
    "LogFilter",
    "LogLine",
    "NoSuchJob",
    "Phase",
    "PodState",
    "Problem",
    "RunDamaged",
    "SourceError",
    "Status",
    "StoreError",
    "UserError",
    "VcjobError",
    "WaitTimeout",
    "__version__",
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


if not TYPE_CHECKING:  # a type checker sees the imports above, and an unknown name is an error to it

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from vcjob import sdk

        value = globals()[name] = getattr(sdk, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
