"""`admit`: from a document to a Job that everything else may rely on, or to all that is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from vcjob.admission import (
    defaults,
    dependencies,
    naming,
    policies,
    queueing,
    tasks,
    templates,
    topology,
    volumes,
)
from vcjob.admission.readable import is_readable, readable
from vcjob.plugins import registry
from vcjob.spec import schema
from vcjob.spec.document import Document
from vcjob.spec.job import BackendName, Job
from vcjob.spec.problem import Path, Problem, has_errors

Check = Callable[[Job], Iterable[Problem]]
#: How long the path of a field of a task is: spec, tasks, number, field.
_TASK_FIELD = 4
Queues = Mapping[str, Mapping[str, Any]]

_CHECKS: tuple[Check, ...] = (
    tasks.check,
    policies.check,
    templates.check,
    topology.check,
    dependencies.check,
)


class Admission(msgspec.Struct, frozen=True):
    """What came of it. `job` and `doc` carry the defaults; `job` is None where there are errors.

    `doc` keeps the order of keys and every field that the user wrote.
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
    """Default and check one Job.

    `queues` are the cluster's Queue objects by name, where there are any. With `old` it is an update:
    what may not change is refused, and what was wrong before is no reason to refuse it now.
    """
    document = doc if isinstance(doc, Document) else Document.of(doc)
    examined = schema.examine(document.data, allow_unknown=allow_unknown)
    problems = [*document.problems, *examined.problems]
    data = document.data if isinstance(document.data, dict) else {}
    job = Job(defaults.apply(readable(data, examined.unreadable)))
    if document.data is not None:
        found = _checked(job, backend=backend, queues=queues, update=old is not None)
        problems += [problem for problem in found if is_readable(problem.where, examined.unreadable)]
    if not _hides_plugins(job, examined.unreadable):
        problems += _plugin_problems(job)
    if old is not None:
        problems = _update(old, job.doc, problems, allow_unknown=allow_unknown)
    if not has_errors(problems):
        defaults.open_forced_plugins(job.doc, registry.open_plugins(job))
        job = Job(job.doc)
    located = document.locate(problems)
    return Admission(None if has_errors(located) else job, job.doc, located)


def _checked(
    job: Job, *, backend: BackendName | None, queues: Queues | None, update: bool
) -> Iterable[Problem]:
    for check in _CHECKS:
        yield from check(job)
    yield from naming.check(job, backend)
    yield from volumes.check(job, update=update)
    if queues is not None and not update:
        yield from queueing.check(job, queues)


def _plugin_problems(job: Job) -> Iterable[Problem]:
    if job.replicas > tasks.MAX_PODS:
        return []  # refused already; a plugin would list every host of them
    return registry.check_plugins(job)


def _hides_plugins(job: Job, unreadable: Mapping[Path, str]) -> bool:
    """Whether what cannot be read is what the plugins judge by: they would only report its consequences."""
    if not job.tasks and unreadable:
        return True
    return any(
        where[:2] == ("spec", "plugins")
        or (where[:2] == ("spec", "tasks") and (len(where) < _TASK_FIELD or where[3] in ("name", "replicas")))
        for where in unreadable
    )


def _update(
    old: Mapping[str, Any], new: dict[str, Any], problems: list[Problem], *, allow_unknown: bool
) -> list[Problem]:
    from vcjob.admission.update import check_update

    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return []  # finalizers must come off a Job whatever its state
    before = {
        (p.where, p.message)
        for p in admit(old, allow_unknown=allow_unknown).problems
        if p.severity == "error"
    }
    kept = [problem for problem in problems if (problem.where, problem.message) not in before]
    unreadable = schema.examine(old, allow_unknown=allow_unknown).unreadable
    return [*kept, *check_update(readable(dict(old), unreadable), new)]
