"""The tasks of a Job: there are some, their names differ, their numbers fit together."""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error, warning


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
                f"at most {task.replicas}",
            )
    yield from _totals(job)


def _names(job: Job) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for number, task in enumerate(job.tasks):
        before = first.setdefault(task.name, number)
        if before != number:
            yield error(
                ("spec", "tasks", number, "name"),
                f"duplicated task name `{task.name}`: spec.tasks[{before}] has it already",
                "give each task its own name",
            )


def _totals(job: Job) -> Iterator[Problem]:
    where: Path = ("spec", "minAvailable")
    least = job.spec.min_available or 0
    # The sum of the tasks' own numbers is the default; where it is too much, one of them is.
    if job.tasks and least > job.replicas and least != sum(task.min_available or 0 for task in job.tasks):
        yield error(
            where,
            f"job 'minAvailable' should not be greater than total replicas: {least} of {job.replicas}",
            f"at most {job.replicas}; leave it out to wait for all of them",
        )
    if (job.spec.min_success or 0) > job.replicas:
        yield warning(
            ("spec", "minSuccess"),
            f"minSuccess is {job.spec.min_success}, but there are only {job.replicas} pods: it can never be met",
            f"at most {job.replicas}",
        )
