"""Jobs from a file, a text or a dictionary: read, checked, and with their defaults filled in.

`load` and `validate` are part of the SDK; running, rendering and the verbs that take a file use them. `load` raises
InvalidJob with all problems, `validate` returns them; a file that cannot be read at all is a SourceError.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from vcjob.admission.review import admit
from vcjob.errors import InvalidJob, UserError
from vcjob.spec import bundle
from vcjob.spec.document import Document
from vcjob.spec.job import BackendName, Job
from vcjob.spec.problem import Problem, has_errors, warning

if TYPE_CHECKING:
    from vcjob.sdk.authoring.overrides import Overrides

#: A path (`-` is standard input), YAML or JSON text, a Job as a dictionary, or a Job that was loaded before.
Source: TypeAlias = str | PathLike[str] | Mapping[str, Any] | Job


class Loaded:
    """The content of a source: its Jobs after admission, the objects next to them, and the problems found.

    `load` returns it, and the backends start its Jobs. SourceError if the source cannot be read; a Job with errors is
    not in `jobs`.
    """

    __slots__ = ("claims", "config_maps", "documents", "file", "given", "jobs", "problems", "secrets")

    def __init__(
        self,
        source: Source,
        *,
        allow_unknown: bool = False,
        backend: BackendName | None = None,
        overrides: Overrides | None = None,
    ) -> None:
        found = bundle.load(source.doc if isinstance(source, Job) else source)
        self.file = found.file
        self.config_maps = found.config_maps
        self.secrets = found.secrets
        self.claims = found.claims
        self.jobs: list[Job] = []
        #: The same Jobs as the user wrote them, without defaults.
        self.given: list[dict[str, Any]] = []
        #: Where each part of those Jobs is in its file.
        self.documents: list[Document] = []
        self.problems: list[Problem] = list(found.problems)
        for document in found.jobs:
            if overrides:
                document.changed = overrides.apply(document.data)
            admission = admit(document, allow_unknown=allow_unknown, backend=backend)
            self.problems += admission.problems
            if admission.job is not None:
                self.jobs.append(admission.job)
                self.given.append(document.data)
                self.documents.append(document)

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
                hint="choose one by its name",
            )
        return self.jobs[0]

    def select(self, name: str | None) -> list[Loaded]:
        """One `Loaded` for each Job, or for the Job of that name; what stands next to the Jobs goes with each."""
        if name is not None and name not in [job.name for job in self.jobs]:
            raise UserError(
                f"there is no Job {name!r} in {self.file or 'the source'}",
                hint=f"its Jobs are: {', '.join(job.name for job in self.jobs)}",
            )
        selected = []
        for place, job in enumerate(self.jobs):
            if name in (None, job.name):
                one = copy(self)
                one.jobs, one.given, one.documents = [job], [self.given[place]], [self.documents[place]]
                selected.append(one)
        return selected


def load(
    source: Source,
    *,
    allow_unknown: bool = False,
    backend: BackendName | None = None,
    overrides: Overrides | None = None,
) -> Loaded:
    """The Jobs of a source, checked and defaulted; InvalidJob with every problem where one is wrong.

    With `allow_unknown`, fields that the schema does not know pass. `backend`: where it will run.
    `overrides`: changes to the Jobs before they are checked.

    >>> load("job.yaml").job.name
    'hello'
    """
    loaded = Loaded(source, allow_unknown=allow_unknown, backend=backend, overrides=overrides)
    if has_errors(loaded.problems):
        raise InvalidJob(loaded.problems)
    return loaded


def validate(source: Source, *, allow_unknown: bool = False) -> list[Problem]:
    """Every problem of a source, errors and warnings; none at all means that it can be run.

    Only what cannot be read as text at all is raised, as SourceError.

    >>> from vcjob import pytorch_job
    >>> job = pytorch_job("hello", script="train.py")
    >>> job["spec"]["minAvailable"] = 5
    >>> [problem.path for problem in validate(job)]
    ['spec.minAvailable']
    """
    loaded = Loaded(source, allow_unknown=allow_unknown)
    return [*loaded.problems, *_local_warnings(loaded)]


def _local_warnings(loaded: Loaded) -> Iterator[Problem]:
    """Containers without a command: a cluster runs their image, and `run` on this machine refuses them."""
    from vcjob.local.pod import images
    from vcjob.local.run.home import home_folder

    if not any(True for job in loaded.jobs for _ in images.without_command(job, {})):
        return
    try:
        folder = home_folder()
    except UserError:  # without a home folder no Job can run on this machine
        return
    known = images.load_map(folder, (), sys.executable)
    for job, document in zip(loaded.jobs, loaded.documents, strict=True):
        yield from document.locate(
            warning(
                where,
                "this container has no `command`: a cluster runs the program of its image, but on this machine"
                " `vcjob run` has nothing to run",
                "add a `command`, or pass --image IMAGE='python train.py' to `vcjob run`",
            )
            for where, _ in images.without_command(job, known)
        )


def check_image_commands(loaded: Iterable[Loaded], commands: Sequence[str]) -> None:
    """UserError for a command that stands for an image (`--image IMAGE=COMMAND`) and that no container of the Jobs would run."""
    if commands:
        from vcjob.local.pod import images

        images.check_flags((job for each in loaded for job in each.jobs), commands)
