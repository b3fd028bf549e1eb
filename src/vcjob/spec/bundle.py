"""What a file holds: Jobs, and the ConfigMaps, Secrets and volume claims that stand beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from vcjob.spec.document import Document
from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.problem import Problem, error
from vcjob.spec.source import load_documents, read_text
from vcjob.spec.spelling import nearest

_COMPANIONS = {"ConfigMap": "config_maps", "Secret": "secrets", "PersistentVolumeClaim": "claims"}
_KINDS = (KIND, *_COMPANIONS)


class Bundle:
    """The documents of one source, sorted by kind; the companions are found by their name.

    `problems` holds what is wrong outside the Jobs; each Job's document has its own.
    """

    __slots__ = ("claims", "config_maps", "file", "jobs", "problems", "secrets")

    def __init__(self, file: str | None = None) -> None:
        self.file = file
        self.jobs: list[Document] = []
        self.config_maps: dict[str, dict[str, Any]] = {}
        self.secrets: dict[str, dict[str, Any]] = {}
        self.claims: dict[str, dict[str, Any]] = {}
        self.problems: list[Problem] = []

    def add(self, document: Document) -> None:
        kind, data = document.kind, document.data
        problems: list[Problem] = []
        if not isinstance(data, dict):
            problems += document.problems or [_no_mapping(data)]
        elif kind == KIND:
            if any(_same_name(job, document) for job in self.jobs):
                document.problems += document.locate([_second("Job", document.name)])
            self.jobs.append(document)
        elif kind in _COMPANIONS:
            from vcjob.spec import schema

            problems += document.problems
            problems += schema.check_companion(document)
            shelf: dict[str, dict[str, Any]] = getattr(self, _COMPANIONS[kind])
            if document.name in shelf:
                problems.append(_second(kind, document.name))
            if document.name is not None:
                shelf.setdefault(document.name, data)
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
    name, text = read_text(source)
    return load_text(text, name)


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
                message="there is no Job in it",
                hint=f"begin with `apiVersion: {API_VERSION}` and `kind: {KIND}`",
                file=file,
                line=1 if file else None,
                column=1 if file else None,
            )
        )
    return result


def _same_name(one: Document, other: Document) -> bool:
    def identity(document: Document) -> tuple[object, object]:
        metadata = document.data.get("metadata") or {}
        return (metadata.get("namespace"), document.name) if isinstance(metadata, dict) else (None, None)

    return other.name is not None and identity(one) == identity(other)


def _second(kind: str, name: str | None) -> Problem:
    return error(("metadata", "name"), f"a second {kind} named `{name}` in one file", "give it another name")


def _no_mapping(data: object) -> Problem:
    shown = "a list" if isinstance(data, list) else "text or a number"
    return error((), f"a document must be a mapping, not {shown}", f"begin with `apiVersion: {API_VERSION}`")


def _wrong_kind(data: dict[str, Any]) -> Problem:
    if "kind" not in data:
        return error((), "`kind` is missing", f"write `kind: {KIND}`")
    kind = data["kind"]
    near = nearest(str(kind), _KINDS)
    if near and near != kind:
        return error(("kind",), f"unknown kind `{kind}`", f"did you mean `{near}`?")
    return error(
        ("kind",),
        f"the kind `{kind}` has no place here",
        f"a file holds Jobs; beside them {', '.join(_KINDS[1:])}",
    )
