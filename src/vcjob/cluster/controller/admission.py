"""From a Job object to the Job that is run: checked once and planned once per generation.

Called by the reconciler. It reads the Job's state and makes no request.
"""

from __future__ import annotations

from typing import Any

from vcjob.admission import admit, defaults
from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.errors import VcjobError
from vcjob.lifecycle.status import Status
from vcjob.plugins.registry import open_plugins
from vcjob.spec.job import Job
from vcjob.spec.problem import Problem

#: How many characters of a rejection a status keeps.
_MESSAGE_LIMIT = 2000


class Rejected(Exception):
    """The Job cannot be run as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def admit_job(state: JobState, status: Status) -> Job:
    """The Job with its defaults. A Job that has not started, and a change of one that we know, is checked as the
    webhook would check it. A Job that was started before this process is taken as it is: it keeps its meaning, even
    if a later version would reject it."""
    document = state.document()
    if not status.shape or state.job is not None:
        old = state.job.doc if status.shape and state.job is not None else None
        admission = admit(document, allow_unknown=True, backend="cluster", old=old)
        if admission.job is None:
            raise Rejected(rejection_message(admission.problems))
        return admission.job
    try:
        return _with_defaults(document)
    except VcjobError as error:
        raise Rejected(error.message) from error


def _with_defaults(document: dict[str, Any]) -> Job:
    document = defaults.apply(document)
    defaults.open_forced_plugins(document, open_plugins(Job(document)))
    return Job(document)


def rejection_message(problems: list[Problem]) -> str:
    errors = [problem for problem in problems if problem.severity == "error"]
    text = "; ".join(_describe(problem) for problem in errors)
    return (
        text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]}… ({len(errors)} problems in all)"
    )


def _describe(problem: Problem) -> str:
    text = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return f"{text} ({problem.hint})" if problem.hint else text
