"""`admit`: turns a document into a checked Job with its defaults, or into the list of its problems.

It runs the limits, the schema, the checks of this package and those of the plugins, in this order. It knows
neither files nor clusters: callers pass the document and, where there are any, the queues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec

from vcjob.admission import defaults
from vcjob.admission.checks import (
    dependencies,
    naming,
    policies,
    queueing,
    tasks,
    templates,
    topology,
    volumes,
)
from vcjob.admission.findings import Findings
from vcjob.admission.limits import MAX_REPLICAS, check_limits
from vcjob.admission.readable import Unreadable
from vcjob.plugins import registry
from vcjob.spec import schema
from vcjob.spec.document import Document
from vcjob.spec.job import BackendName, Job
from vcjob.spec.problem import Path, Problem, has_errors

Check = Callable[[Job], Iterable[Problem]]
#: The length of the path of a task's field: spec, tasks, number, field.
_TASK_FIELD = 4
Queues = Mapping[str, Mapping[str, Any]]
_Identity: TypeAlias = tuple[Path, str]

_CHECKS: tuple[Check, ...] = (
    tasks.check,
    policies.check,
    templates.check,
    topology.check,
    dependencies.check,
)


class Admission(msgspec.Struct, frozen=True):
    """The result of `admit`. `job` and `doc` carry the defaults; `job` is None where there are errors.

    `doc` keeps the order of keys and every field that the user wrote. `problems` has at most MAX_PROBLEMS
    entries, and a last one that says how many more there are.
    """

    job: Job | None
    doc: dict[str, Any]
    problems: list[Problem]

    @property
    def valid(self) -> bool:
        return not has_errors(self.problems)


def admit(
    doc: Document | Mapping[str, Any],
    *,
    allow_unknown: bool = False,
    backend: BackendName | None = None,
    queues: Queues | None = None,
    old: Mapping[str, Any] | None = None,
) -> Admission:
    """Apply the defaults to one Job and check it.

    `queues` are the cluster's Queue objects by name, where there are any. With `old`, the Job is an update of
    it: fields that may not change are checked, and a problem that the old Job had is not reported.
    """
    document = doc if isinstance(doc, Document) else Document.of(doc)
    review = _Review(document, allow_unknown, backend, queues, update=old is not None)
    if old is None:
        review.run()
    elif review.is_being_deleted:
        review.read()
        review.findings = Findings()  # finalizers must come off a Job whatever its state
    else:
        review.run_update(old)
    job, errors = review.job, review.findings.errors
    if (
        job is not None
        and not errors
        and registry.can_open(job)
        and defaults.open_forced_plugins(job.doc, registry.open_plugins(job))
    ):
        job = Job(job.doc)
    defaulted = review.data if job is None else job.doc
    return Admission(None if errors else job, defaulted, review.findings.shown(document))


class _Review:
    """One pass over one document; `job` is the Job with its defaults, or None where a limit is exceeded."""

    def __init__(
        self,
        document: Document,
        allow_unknown: bool,
        backend: BackendName | None = None,
        queues: Queues | None = None,
        *,
        update: bool = False,
    ) -> None:
        self.document = document
        self.data: dict[str, Any] = document.data if isinstance(document.data, dict) else {}
        self.allow_unknown = allow_unknown
        self.backend = backend
        self.queues = queues
        self.update = update
        self.findings = Findings()
        self.unreadable = Unreadable({})
        self.job: Job | None = None

    @property
    def is_being_deleted(self) -> bool:
        metadata = self.data.get("metadata")
        return isinstance(metadata, dict) and bool(metadata.get("deletionTimestamp"))

    def run(self, accepted: Collection[_Identity] = ()) -> None:
        """All checks. Where a hard limit is exceeded, no other check runs.

        Problems that are `accepted` are not reported.
        """

        def report(problems: Iterable[Problem]) -> None:
            self.findings.add(problem for problem in problems if _identity(problem) not in accepted)

        report(check_limits(self.data))
        exceeded = bool(self.findings.errors)
        report(self.document.problems)
        if not exceeded:
            report(self.read())
            report(self._checks())
            report(self._plugin_problems())

    def run_update(self, old: Mapping[str, Any]) -> None:
        """All checks of an update: what was wrong before is no reason to refuse it now."""
        before = _Review(Document.of(old), self.allow_unknown)
        before.run()
        self.run({_identity(problem) for problem in before.findings.errors})
        if self.job is not None:
            from vcjob.admission.update import check_update

            if before.job is None:
                before.read()
            if before.job is None:
                return  # the stored Job cannot be read at all, so there is nothing to compare with
            self.findings.add(check_update(before.unreadable.removed_from(before.data), self.job.doc))

    def read(self) -> list[Problem]:
        """Check the schema and make the Job of what can be read."""
        examined = schema.examine(self.document.data, allow_unknown=self.allow_unknown)
        self.unreadable = Unreadable(examined.unreadable)
        if examined.complete:
            self.job = Job(defaults.apply(self.unreadable.removed_from(self.data)))
        else:
            self.findings.complete = False
        return examined.problems

    def _checks(self) -> Iterator[Problem]:
        if self.job is None or self.document.data is None:
            return
        for problem in self._unfiltered_checks(self.job):
            if not self.unreadable.concerns(problem.where):
                yield problem

    def _unfiltered_checks(self, job: Job) -> Iterator[Problem]:
        for check in _CHECKS:
            yield from check(job)
        yield from naming.check(job, self.backend)
        yield from volumes.check(job, update=self.update)
        if self.queues is not None and not self.update:
            yield from queueing.check(job, self.queues)

    def _plugin_problems(self) -> Iterator[Problem]:
        job = self.job
        if (
            job is not None
            and job.replicas <= MAX_REPLICAS
            and not _hides_plugins(job, self.unreadable.places)
        ):
            yield from registry.check_plugins(job)


def _identity(problem: Problem) -> _Identity:
    return problem.where, problem.message


def _hides_plugins(job: Job, unreadable: Mapping[Path, str]) -> bool:
    """Whether what cannot be read is what the plugins judge by: they would only report its consequences."""
    if not job.tasks and unreadable:
        return True
    return any(
        where[:2] == ("spec", "plugins")
        or (where[:2] == ("spec", "tasks") and (len(where) < _TASK_FIELD or where[3] in ("name", "replicas")))
        for where in unreadable
    )
