"""The contents of a file: Jobs, and the ConfigMaps, Secrets and volume claims that they use.

The SDK loads every source through `load`. Problems outside the Jobs are in `Bundle.problems`; each Job's
document carries its own. Only what cannot be read as text at all raises SourceError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from vcjob.errors import SourceError
from vcjob.spec.document import Document
from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.problem import Problem, error
from vcjob.spec.source import load_documents, read_text
from vcjob.spec.spelling import nearest
from vcjob.spec.wording import show

_COMPANIONS = {"ConfigMap": "config_maps", "Secret": "secrets", "PersistentVolumeClaim": "claims"}
_KINDS = (KIND, *_COMPANIONS)
#: Kinds of Kubeflow that `vcjob convert` turns into Jobs.
_CONVERTIBLE = ("PyTorchJob", "TrainJob")
_KUBEFLOW = ("kubeflow.org/", "trainer.kubeflow.org/")
_NOT_CONVERTIBLE = ("TFJob", "MPIJob", "JAXJob", "MXJob", "PaddleJob", "XGBoostJob")


class Bundle:
    """The documents of one source, sorted by kind; ConfigMaps, Secrets and claims are found by name.

    `problems` holds what is wrong outside the Jobs; each Job's document has its own.
    """

    __slots__ = ("_identities", "claims", "config_maps", "file", "jobs", "problems", "secrets")

    def __init__(self, file: str | None = None) -> None:
        self.file = file
        self.jobs: list[Document] = []
        self.config_maps: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.problems: list[Problem] = []
        self._identities: set[tuple[str, str | None]] = set()

    def add(self, document: Document) -> None:
        kind, data = document.kind, document.data
        problems: list[Problem] = []
        if not isinstance(data, dict):
            problems += document.problems or [_no_mapping(data)]
        elif kind == KIND:
            identity = _identity(document)
            if identity in self._identities:
                document.problems += document.locate([_second("Job", document.name)])
            if document.name is not None:
                self._identities.add(identity)
            self.jobs.append(document)
        elif kind in _COMPANIONS:
            from vcjob.spec import schema

            problems += document.problems
            problems += schema.check_companion(document)
            by_name: dict[str, dict[str, Any]] = getattr(self, _COMPANIONS[kind])
            if document.name in by_name:
                problems.append(_second(kind, document.name))
            if document.name is not None:
                by_name.setdefault(document.name, data)
        else:
            problems += document.problems
            if not any(problem.where[:1] == ("kind",) for problem in problems):
                problems.append(_wrong_kind(data))
        self.problems += document.locate(problems)


def load(source: str | os.PathLike[str] | Mapping[str, Any]) -> Bundle:
    """A bundle from a path (`-` is standard input), from YAML or JSON text, or from a Job as a dictionary.

    A string is text if it has a line break or begins with `{`, else it is a path.
    """
    if isinstance(source, Mapping):
        return bundle([Document.of(source)])
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith("{")):
        return load_text(source)
    if not isinstance(source, str | os.PathLike):
        raise _not_a_source(source)
    name, text = read_text(source)
    return load_text(text, name)


def _not_a_source(source: object) -> SourceError:
    if callable(source):
        function = getattr(source, "__name__", "function")
        return SourceError(
            "a function is not a Job", hint=f"make a Job of it: vcjob.run(vcjob.pytorch_job({function}))"
        )
    hint = (
        "give one Job at a time"
        if isinstance(source, list | tuple)
        else "give the path of a file, text or a dict"
    )
    return SourceError(f"a {type(source).__name__} is not a Job", hint=hint)


def load_text(text: str, name: str = "<text>") -> Bundle:
    return bundle(load_documents(text, name), name)


def bundle(documents: Iterable[Document], file: str | None = None) -> Bundle:
    result = Bundle(file)
    for document in documents:
        result.add(document)
    if not result.jobs and not result.problems:
        result.problems.append(
            Problem(
                severity="error",
                where=(),
                message="the file contains no Job" if file else "there is no Job in the source",
                hint=f"start it with `apiVersion: {API_VERSION}` and `kind: {KIND}`",
                file=file,
                line=1 if file else None,
                column=1 if file else None,
            )
        )
    return result


def _identity(document: Document) -> tuple[str, str | None]:
    metadata = document.data.get("metadata")
    return str(metadata.get("namespace")) if isinstance(metadata, dict) else "", document.name


def _second(kind: str, name: str | None) -> Problem:
    return error(
        ("metadata", "name"), f"another {kind} in this file has the name `{name}`", "rename one of them"
    )


def _no_mapping(data: object) -> Problem:
    shown = "a list" if isinstance(data, list) else "a text or a number"
    return error(
        (), f"a document must be a mapping, not {shown}", f"start it with `apiVersion: {API_VERSION}`"
    )


def _wrong_kind(data: dict[str, Any]) -> Problem:
    if "kind" not in data:
        return error((), "`kind` is missing", f"add `kind: {KIND}`")
    kind = data["kind"]
    if kind in _CONVERTIBLE:
        return error(
            ("kind",), f"the kind `{kind}` is not a Volcano Job", "convert it with `vcjob convert FILE`"
        )
    if kind in _NOT_CONVERTIBLE or str(data.get("apiVersion")).startswith(_KUBEFLOW):
        return error(
            ("kind",),
            f"the kind `{show(kind)}` of Kubeflow cannot be converted: only {' and '.join(_CONVERTIBLE)} can",
            "write a Job file with `vcjob init`",
        )
    near = nearest(str(kind), _KINDS)
    if near and near != kind:
        return error(("kind",), f"unknown kind `{show(kind)}`", f"did you mean `{near}`?")
    return error(
        ("kind",),
        f"the kind `{show(kind)}` is not supported here",
        f"a file contains Jobs, and may contain {', '.join(_KINDS[1:])}",
    )
