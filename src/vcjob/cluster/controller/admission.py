"""From a Job object to the Job that is run: checked once and planned once per generation.

Called by the reconciler, in a thread for large Jobs. Pure functions, but for the log of errors in vcjob itself.
"""

from __future__ import annotations

import logging
from typing import Any

from vcjob.admission import defaults
from vcjob.admission.review import admit
from vcjob.cluster.controller.offload import LARGE_METADATA, LARGE_PODS, LARGE_SPEC_BYTES, LARGE_TASKS
from vcjob.errors import VcjobError
from vcjob.lifecycle.frozen_spec import note_admitted, spec_digest, spec_problem
from vcjob.lifecycle.status import Status
from vcjob.plugins.registry import open_plugins
from vcjob.spec.document import Document
from vcjob.spec.job import Job
from vcjob.spec.problem import Problem

log = logging.getLogger(__name__)
#: How many characters of a rejection a status keeps.
_MESSAGE_LIMIT = 2000
#: Kubernetes reads seconds as 32 bits.
_LONGEST_TTL = 2**31 - 1


class Rejected(Exception):
    """The Job cannot be run as it is.

    Raised by the controller's own admission, which also checks Jobs that no webhook has seen; `JobPreparer` writes
    the message into the status.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def is_large(document: dict[str, Any], spec_bytes: int) -> bool:
    """Whether admission and planning may take long. The spec may be anything."""
    tasks = _spec(document).get("tasks")
    tasks = tasks if isinstance(tasks, list) else []
    counts = [task.get("replicas") for task in tasks if isinstance(task, dict)]
    pods = sum(count for count in counts if isinstance(count, int))
    metadata = document.get("metadata") or {}
    marks = len(metadata.get("labels") or ()) + len(metadata.get("annotations") or ())
    return (
        spec_bytes >= LARGE_SPEC_BYTES
        or pods >= LARGE_PODS
        or len(tasks) >= LARGE_TASKS
        or marks >= LARGE_METADATA
    )


def admit_job(document: dict[str, Any], known: Job | None, status: Status) -> Job:
    """The admitted Job; what every decision about it needs to know of its spec is computed here, off the event loop.

    An error in vcjob itself rejects the Job too: another attempt would end the same way. Errors of the machine are raised.
    """
    try:
        job = _admitted(document, known, status)
        spec_digest(job)
    except (Rejected, OSError, MemoryError):
        raise
    except Exception as cause:
        metadata = document["metadata"]
        log.exception("the check of Job %s/%s failed", metadata.get("namespace"), metadata.get("name"))
        message = f"internal error while checking the Job: {type(cause).__name__}: {cause}"
        raise Rejected(f"{message[:_MESSAGE_LIMIT]} (the log of the controller has the details)") from cause
    return job


def _admitted(document: dict[str, Any], known: Job | None, status: Status) -> Job:
    """The Job with its defaults. A Job that has not started, and a change of one that we know, is checked as the
    webhook would check it. A Job that was started before this process is taken as it is: it keeps its meaning, even if
    a later version would reject it. `known` is the Job as it was admitted before."""
    if known is not None and status.shape and spec_problem(known, status) is not None:
        known = None  # it is paused because of a change; only the digest in the status says what it was
    if not status.shape or known is not None:
        old = known.doc if status.shape and known is not None else None
        # The document is plain JSON, just decoded, and nobody else's: it needs no copy.
        admission = admit(Document(document), allow_unknown=True, backend="cluster", old=old)
        if admission.job is None:
            raise Rejected(rejection_message(admission.problems))
        if old is None:
            note_admitted(admission.job)
        return admission.job
    try:
        return _with_defaults(document)
    except VcjobError as error:
        raise Rejected(error.message) from error


def _with_defaults(document: dict[str, Any]) -> Job:
    document = defaults.apply(document)
    defaults.open_forced_plugins(document, open_plugins(Job(document)))
    return Job(document)


def job_before(document: dict[str, Any]) -> Job | None:
    """A Job that was admitted in this process, as it was then; None where that is not possible any more."""
    try:
        return _with_defaults(document)
    except VcjobError:
        return None


def ended_job(document: dict[str, Any]) -> Job:
    """What matters of a Job that has ended and that vcjob never ran. The rest of its spec may be anything."""
    ttl = _spec(document).get("ttlSecondsAfterFinished")
    spec = {"ttlSecondsAfterFinished": ttl} if type(ttl) is int and 0 <= ttl <= _LONGEST_TTL else {}
    return Job({**document, "spec": spec})


def _spec(document: dict[str, Any]) -> dict[str, Any]:
    spec = document.get("spec")
    return spec if isinstance(spec, dict) else {}


def rejection_message(problems: list[Problem]) -> str:
    errors = [problem for problem in problems if problem.severity == "error"]
    text = "; ".join(_describe(problem) for problem in errors)
    return (
        text if len(text) <= _MESSAGE_LIMIT else f"{text[:_MESSAGE_LIMIT]}… ({len(errors)} problems in all)"
    )


def _describe(problem: Problem) -> str:
    text = f"{problem.path}: {problem.message}" if problem.path else problem.message
    return f"{text} ({problem.hint})" if problem.hint else text
