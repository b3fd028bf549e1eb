"""`vcjob.convert_jobs()`: Volcano Jobs from the PyTorchJobs and TrainJobs of Kubeflow.

Documents that a Job file may hold (ConfigMaps, Secrets, volume claims, Jobs) are kept. Nothing is dropped silently:
every field without an equivalent is in the notes.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any, NamedTuple

from vcjob.errors import InvalidJob, UserError
from vcjob.sdk.authoring.foreign_fields import NO_EQUIVALENT, Note
from vcjob.sdk.authoring.pytorchjob import convert_pytorchjob
from vcjob.sdk.authoring.trainjob import convert_trainjob
from vcjob.spec.document import Document
from vcjob.spec.source import load_documents, read_text

_CONVERTERS = {"PyTorchJob": convert_pytorchjob, "TrainJob": convert_trainjob}
_KEPT = ("Job", "ConfigMap", "Secret", "PersistentVolumeClaim")


class Converted(NamedTuple):
    """The documents of the new file, and what has no equivalent in it.

    `convert_jobs` returns it. The documents are not checked yet: `validate` does that.
    """

    documents: list[dict[str, Any]]
    notes: list[Note]


def convert_jobs(source: str | PathLike[str]) -> Converted:
    """Convert a file (`-` is standard input), or YAML text with a line break, that has PyTorchJobs or TrainJobs.

    They may be in a List, as `kubectl get pytorchjobs -o yaml` prints it.

    InvalidJob where the text is not valid, UserError where there is nothing to convert.
    """
    is_text = isinstance(source, str) and "\n" in source
    name, text = ("<text>", str(source)) if is_text else read_text(source)
    loaded = load_documents(text, name)
    problems = [problem for document in loaded for problem in document.problems]
    if problems:
        raise InvalidJob(problems)
    documents = [item for document in loaded for item in _items(document)]
    found: list[dict[str, Any]] = []
    notes: list[Note] = []
    kinds = [document.kind for document in documents]
    if not any(kind in _CONVERTERS for kind in kinds):
        raise UserError(
            f"{name} has no PyTorchJob or TrainJob",
            hint="it is a Volcano Job already" if "Job" in kinds else "these two kinds can be converted",
        )
    for document in documents:
        if document.kind in _CONVERTERS:
            found.append(_CONVERTERS[document.kind](document.data, notes))
        elif document.kind in _KEPT:
            found.append(document.data)
        else:
            notes.append(Note(f"{document.kind} {document.name}", NO_EQUIVALENT))
    return Converted(found, notes)


def _items(document: Document) -> Iterator[Document]:
    """The items of a List, which `kubectl get -o yaml` prints, or the document itself."""
    if document.kind != "List":
        yield document
        return
    items = document.data.get("items") or []
    if not isinstance(items, list):
        raise UserError("items must be a list", hint="it is a list of objects in the output of `kubectl get`")
    for item in items:
        yield from _items(Document.of(item))
