"""The schema check: every field of a Job, its pod templates included, known and of the right form.

A valid document costs microseconds. Only one that is not is walked again to say what is wrong with it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path as FilePath
from typing import Any

import msgspec

from vcjob.spec.document import Document
from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.wording import Failure, say

_OTHER_JOB = "batch/v1"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Examined(msgspec.Struct, frozen=True):
    """The problems, and the places where nothing can be read: a value has the wrong type or is missing.

    Beside each such place stands the type that is wanted there.
    """

    problems: list[Problem]
    unreadable: dict[Path, str]


def check(document: Document | dict[str, Any], *, allow_unknown: bool = False) -> list[Problem]:
    """All problems of a Job's form, with their places where the document has a file."""
    document = document if isinstance(document, Document) else Document.of(document)
    return document.locate(document.problems + examine(document.data, allow_unknown=allow_unknown).problems)


def check_companion(document: Document) -> list[Problem]:
    """Problems of a ConfigMap, Secret or PersistentVolumeClaim."""
    assert document.kind is not None
    problems = examine(document.data, document.kind).problems
    if document.name is None:
        problems.append(error(("metadata",), "`metadata.name` is missing", "give it a name"))
    return problems


def examine(data: Any, kind: str = KIND, *, allow_unknown: bool = False) -> Examined:
    problems = _identity(data) if kind == KIND else []
    if isinstance(data, dict) and data.get("apiVersion") == _OTHER_JOB and kind == KIND:
        return Examined(problems, {(): "object"})  # another kind of Job altogether: nothing else would fit
    if _validator(kind).is_valid(data):
        return Examined(problems, {})
    failures = _failures(kind, data)
    wrong_type = {
        failure.where: failure.detail.types[-1] for failure in failures if failure.keyword == "type"
    }
    schema = _schema(kind)
    unreadable = dict(wrong_type)
    for failure in failures:
        if failure.where in wrong_type and failure.keyword != "type":
            continue  # a value of the wrong type breaks the other rules too; one problem is enough
        if failure.keyword == "additionalProperties" and allow_unknown:
            continue
        if failure.keyword == "required":
            unreadable[*failure.where, failure.detail.property] = "null"
        problems += say(failure, schema)
    return Examined(problems, unreadable)


def _identity(data: Any) -> list[Problem]:
    """`apiVersion` and `kind` say what the document is; everything else follows from them."""
    if not isinstance(data, dict):
        return []
    problems = []
    version, kind = data.get("apiVersion"), data.get("kind")
    if isinstance(version, str) and version != API_VERSION:
        hint = f"write `apiVersion: {API_VERSION}`"
        known = (
            "Kubernetes' own Job is another kind: it has no tasks"
            if version == _OTHER_JOB
            else "not this Job's version"
        )
        problems.append(error(("apiVersion",), f"`{version}`: {known}", hint))
    if isinstance(kind, str) and kind != KIND:
        problems.append(error(("kind",), f"`{kind}` is not a Job", f"write `kind: {KIND}`"))
    return problems


def _failures(kind: str, data: Any) -> list[Failure]:
    return [
        Failure(
            where=_steps(data, bad.instance_path),
            rule=tuple(str(step) for step in bad.schema_path),
            value=bad.instance,
            detail=bad.kind,
        )
        for bad in _validator(kind).iter_errors(data)
    ]


def _steps(data: Any, path: list[str | int]) -> Path:
    """The validator's path; it gives a key of digits as a number."""
    steps: list[str | int] = []
    for step in path:
        step = str(step) if isinstance(data, dict) else step
        steps.append(step)
        data = data[step]
    return tuple(steps)


def job_schema() -> dict[str, Any]:
    """The whole schema of a Job, with its `$defs`. Read-only."""
    return _schema(KIND)


@cache
def _validator(kind: str) -> Any:
    import jsonschema_rs

    return jsonschema_rs.Draft202012Validator(_schema(kind))


@cache
def _schema(kind: str) -> dict[str, Any]:
    folder = FilePath(__file__).with_name("schemas")  # importlib.resources would cost more than the check
    core: dict[str, Any] = msgspec.json.decode((folder / "kubernetes.json").read_bytes())
    if kind != KIND:
        return {"$schema": _DIALECT, "$ref": f"#/$defs/{kind}", "$defs": core}
    schema: dict[str, Any] = msgspec.json.decode((folder / "job.json").read_bytes())
    schema["$defs"] |= core
    return schema
