"""From a Job as it stands in the cluster to what is run: admitted once, planned once per generation."""

from __future__ import annotations

from typing import Any

from vcjob.admission import admit, defaults
from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.errors import VcjobError
from vcjob.lifecycle.status import Status
from vcjob.plugins.registry import open_plugins
from vcjob.spec.job import Job
from vcjob.spec.problem import Problem

#: Words of a refusal that a status keeps.
_KEPT = 2000


class Refused(Exception):
    """The Job cannot be run as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def admitted(entry: JobState, status: Status) -> Job:
    """The Job with its defaults. One that has not started, and a change of one that we know, is checked as the
    webhook would. One that was started before our time is taken as it is: what it was started with keeps its
    meaning, whatever a later version would refuse."""
    document = entry.document()
    if not status.shape or entry.job is not None:
        old = entry.job.doc if status.shape and entry.job is not None else None
        admission = admit(document, allow_unknown=True, backend="cluster", old=old)
        if admission.job is None:
            raise Refused(refusal_text(admission.problems))
        return admission.job
    try:
        return _taken(document)
    except VcjobError as error:
        raise Refused(error.message) from error


def _taken(document: dict[str, Any]) -> Job:
    document = defaults.apply(document)
    defaults.open_forced_plugins(document, open_plugins(Job(document)))
    return Job(document)


def refusal_text(problems: list[Problem]) -> str:
    errors = [problem for problem in problems if problem.severity == "error"]
    text = "; ".join(_sentence(problem) for problem in errors)
    return text if len(text) <= _KEPT else f"{text[:_KEPT]}… ({len(errors)} problems in all)"


def _sentence(problem: Problem) -> str:
    words = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return f"{words} ({problem.hint})" if problem.hint else words
