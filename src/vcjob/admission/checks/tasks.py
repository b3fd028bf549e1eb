"""Checks of the tasks of a Job: their names, replicas and minAvailable.

`admission.review` calls `check` after the defaults have been applied, so a number may be one that the user did not
write. Problems are returned, never raised.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error, warning
from vcjob.spec.wording import show


def check(job: Job) -> Iterator[Problem]:
    if not job.tasks:
        yield error(
            ("spec", "tasks"),
            "No task specified in job spec",
            "add a task with a name, replicas and a template",
        )
    yield from _names(job)
    for number, task in enumerate(job.tasks):
        if task.min_available is not None and task.min_available > task.replicas:
            yield error(
                ("spec", "tasks", number, "minAvailable"),
                f"'minAvailable' is greater than 'replicas' in task {task.name}: "
                f"{task.min_available} of {task.replicas}",
                f"write at most {task.replicas}",
            )
    yield from _totals(job)


def _names(job: Job) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for number, task in enumerate(job.tasks):
        before = first.setdefault(task.name, number)
        if before != number:
            yield error(
                ("spec", "tasks", number, "name"),
                f"duplicated task name `{show(task.name)}`: spec.tasks[{before}] has the same name",
                "give each task its own name",
            )


def _totals(job: Job) -> Iterator[Problem]:
    where: Path = ("spec", "minAvailable")
    least = job.spec.min_available or 0
    # The default is the sum of the tasks' numbers; where that is too large, one of them has been reported.
    if job.tasks and least > job.replicas and least != sum(task.min_available or 0 for task in job.tasks):
        yield error(
            where,
            f"job 'minAvailable' should not be greater than total replicas: {least} of {job.replicas}",
            f"write at most {job.replicas}, or remove it to wait for all pods",
        )
    if (job.spec.min_success or 0) > job.replicas:
        yield warning(
            ("spec", "minSuccess"),
            f"minSuccess is {job.spec.min_success}, but the Job has only {job.replicas} pods, so it can never be met",
            f"write at most {job.replicas}",
        )
