"""Jobs from wherever they are: read, checked and with their defaults."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any, TypeAlias

from vcjob.admission import admit
from vcjob.errors import InvalidJob, UserError
from vcjob.spec import bundle
from vcjob.spec.job import BackendName, Job
from vcjob.spec.problem import Problem, has_errors

#: A path (`-` is standard input), YAML or JSON text, a Job as a dictionary, or a Job that was loaded before.
Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Job


class Loaded:
    """What a source holds: its Jobs after admission, what stands beside them, and what was found."""

    __slots__ = ("claims", "config_maps", "file", "given", "jobs", "problems", "secrets")

    def __init__(
        self, source: Source, *, allow_unknown: bool = False, backend: BackendName | None = None
    ) -> None:
        found = bundle.load(source.doc if isinstance(source, Job) else source)
        self.file = found.file
        self.config_maps = found.config_maps
        self.secrets = found.secrets
        self.claims = found.claims
        self.jobs: list[Job] = []
        #: The same Jobs as the user wrote them, without defaults.
        self.given: list[dict[str, Any]] = []
        self.problems: list[Problem] = list(found.problems)
        for document in found.jobs:
            admission = admit(document, allow_unknown=allow_unknown, backend=backend)
            self.problems += admission.problems
            if admission.job is not None:
                self.jobs.append(admission.job)
                self.given.append(document.data)

    @property
    def warnings(self) -> list[Problem]:
        return [problem for problem in self.problems if problem.severity == "warning"]

    @property
    def job(self) -> Job:
        """The only Job of the source."""
        if len(self.jobs) != 1:
            names = ", ".join(job.name for job in self.jobs)
            raise UserError(
                f"there are {len(self.jobs)} Jobs in {self.file or 'the source'}: {names}",
                hint="keep one in it",
            )
        return self.jobs[0]


def load(source: Source, *, allow_unknown: bool = False, backend: BackendName | None = None) -> Loaded:
    """The Jobs of a source, checked and defaulted; InvalidJob with every problem where one is wrong.

    With `allow_unknown`, fields that the schema does not know pass. `backend`: where it will run.
    """
    loaded = Loaded(source, allow_unknown=allow_unknown, backend=backend)
    if has_errors(loaded.problems):
        raise InvalidJob(loaded.problems)
    return loaded


def validate(source: Source, *, allow_unknown: bool = False) -> list[Problem]:
    """Every problem of a source, errors and warnings; none at all means that it can be run.

    Only what cannot be read as text at all is raised, as SourceError.
    """
    return Loaded(source, allow_unknown=allow_unknown).problems
