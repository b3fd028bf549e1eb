"""The schema check: every field of a Job, its pod templates included, is known and has the right form.

A valid document costs microseconds. Only an invalid one is walked again to report what is wrong with it, in
pieces (each task, then the rest), so that the number of failures that are ever collected stays bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path as FilePath
from typing import Any

import msgspec

from vcjob.spec.document import Document
from vcjob.spec.job import API_VERSION, KIND
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.scalars import base64_bytes
from vcjob.spec.wording import Failure, problems_of, show

_OTHER_JOB = "batch/v1"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TASK = "TaskSpec"
#: The field of a kind that has base64 text, and the one for plain text.
_BASE64 = {"Secret": ("data", "stringData"), "ConfigMap": ("binaryData", "data")}
#: Failures after which the rest of a document is not examined.
MAX_FAILURES = 1_000
#: Unknown fields beyond this number get no suggestion: finding one costs more than all the rest of the problem.
MAX_SUGGESTIONS = 100
#: The validator collects all failures of a piece at once; of a larger piece it reports the first one only.
MAX_PIECE_VALUES = 5_000


class Examined(msgspec.Struct, frozen=True):
    """The problems, and the places where nothing can be read: a value has the wrong type or is missing.

    `unreadable` maps each such place to the type that is wanted there. Where there are too many failures,
    `complete` is False and other places may be unreadable too.
    """

    problems: list[Problem]
    unreadable: dict[Path, str]
    complete: bool = True


def check_companion(document: Document) -> list[Problem]:
    """Problems of a ConfigMap, Secret or PersistentVolumeClaim."""
    assert document.kind is not None
    problems = examine(document.data, document.kind).problems
    problems += islice(_not_base64(document.data, document.kind), MAX_FAILURES)
    if document.name is None:
        problems.append(
            error(("metadata",), "`metadata.name` is missing", "add `name: ...` under `metadata`")
        )
    return problems


def _not_base64(data: dict[str, Any], kind: str) -> Iterator[Problem]:
    """Values that the API server cannot decode. The message does not repeat them: they may be secrets."""
    field, plain = _BASE64.get(kind, ("", ""))
    values = data.get(field)
    for key, value in values.items() if isinstance(values, dict) else ():
        if isinstance(value, str):
            try:
                base64_bytes(value)
            except ValueError:
                hint = f"encode it with `base64 -w0`, or write it as plain text in `{plain}`"
                yield error((field, key), "the value is not base64 text", hint)


def examine(data: Any, kind: str = KIND, *, allow_unknown: bool = False) -> Examined:
    problems = _identity(data) if kind == KIND else []
    if isinstance(data, dict) and data.get("apiVersion") == _OTHER_JOB and kind == KIND:
        return Examined(problems, {(): "object"})  # another kind of Job altogether: nothing else would fit
    if _validator(kind, allow_unknown).is_valid(data):
        return Examined(problems, {})
    schema = _schema(kind)
    failures, complete = _failures(kind, data, allow_unknown)
    wrong_type = {
        failure.where: failure.detail.types[-1] for failure in failures if failure.keyword == "type"
    }
    unreadable = dict(wrong_type)
    for failure in failures:
        if failure.where in wrong_type and failure.keyword != "type":
            continue  # a value of the wrong type breaks the other rules too; one problem is enough
        if failure.keyword == "required":
            unreadable[*failure.where, failure.detail.property] = "null"
        suggestions, room = MAX_SUGGESTIONS - len(problems), MAX_FAILURES - len(problems)
        problems += islice(problems_of(failure, schema, suggestions), room)
        if len(problems) >= MAX_FAILURES:
            return Examined(problems, unreadable, complete=False)
    return Examined(problems, unreadable, complete)


def _identity(data: Any) -> list[Problem]:
    """Problems of `apiVersion` and `kind`, which the schema itself does not check."""
    if not isinstance(data, dict):
        return []
    problems = []
    version, kind = data.get("apiVersion"), data.get("kind")
    if isinstance(version, str) and version != API_VERSION:
        what = (
            "Kubernetes' own Job, which has no tasks"
            if version == _OTHER_JOB
            else "not the version of a Volcano Job"
        )
        message = f"the apiVersion `{show(version)}` is {what}"
        problems.append(error(("apiVersion",), message, f"write `apiVersion: {API_VERSION}`"))
    if isinstance(kind, str) and kind != KIND:
        problems.append(error(("kind",), f"`{show(kind)}` is not a Job", f"write `kind: {KIND}`"))
    return problems


def _failures(kind: str, data: Any, allow_unknown: bool) -> tuple[list[Failure], bool]:
    """The failures of all pieces, and whether these are all there are."""
    failures: list[Failure] = []
    complete = True
    for prefix, piece_kind, piece in _pieces(kind, data):
        small = _values(piece, MAX_PIECE_VALUES) <= MAX_PIECE_VALUES
        found = [
            Failure(
                where=(*prefix, *_steps(piece, bad.instance_path)),
                rule=tuple(str(step) for step in bad.schema_path),
                value=bad.instance,
                detail=bad.kind,
            )
            for bad in _validator_errors(_validator(piece_kind, allow_unknown), piece, first_only=not small)
        ]
        failures += found
        complete = complete and (small or not found)
        if len(failures) > MAX_FAILURES:
            return failures[:MAX_FAILURES], False
    return failures, complete


def _pieces(kind: str, data: Any) -> Iterator[tuple[Path, str, Any]]:
    """The document without its tasks, and each task on its own: where it is, its kind and its data."""
    spec = data.get("spec") if isinstance(data, dict) else None
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    if kind != KIND or not isinstance(spec, dict) or not isinstance(tasks, list):
        yield (), kind, data
        return
    yield (), kind, {**data, "spec": {**spec, "tasks": []}}
    for number, task in enumerate(tasks):
        yield ("spec", "tasks", number), _TASK, task


def _validator_errors(validator: Any, piece: Any, *, first_only: bool) -> list[Any]:
    import jsonschema_rs

    if not first_only:
        return list(validator.iter_errors(piece))
    try:
        validator.validate(piece)
    except jsonschema_rs.ValidationError as first:
        return [first]
    return []


def _values(root: Any, most: int) -> int:
    """How many values there are in `root`; counting stops above `most`."""
    count, waiting = 0, [root]
    while waiting and count <= most:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict | list):
            room = most + 1 - count
            waiting += islice(value.values() if isinstance(value, dict) else value, room)
    return count


def _steps(data: Any, path: list[str | int]) -> Path:
    """The validator's path as keys and indexes; the validator gives a key of digits as a number."""
    steps: list[str | int] = []
    for step in path:
        step = str(step) if isinstance(data, dict) else step
        steps.append(step)
        data = data[step]
    return tuple(steps)


@cache
def _validator(kind: str, allow_unknown: bool) -> Any:
    import jsonschema_rs

    schema = _schema(kind)
    return jsonschema_rs.Draft202012Validator(_without_unknown_rule(schema) if allow_unknown else schema)


def _without_unknown_rule(node: Any) -> Any:
    """The schema without the rule that refuses unknown fields."""
    if isinstance(node, list):
        return [_without_unknown_rule(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_unknown_rule(value)
        for key, value in node.items()
        if not (key == "additionalProperties" and value is False)
    }


def job_schema() -> dict[str, Any]:
    """The whole schema of a Job, with its `$defs`. Read-only."""
    return _file_schema(KIND)


@cache
def _schema(kind: str) -> dict[str, Any]:
    """The schema that the validator uses."""
    if kind == _TASK:
        return {"$schema": _DIALECT, "$ref": f"#/$defs/{_TASK}", "$defs": _schema(KIND)["$defs"]}
    schema: dict[str, Any] = _with_key_patterns(_file_schema(kind))
    return schema


def _with_key_patterns(node: Any) -> Any:
    """The schema with each `propertyNames` written as a pattern of keys that are not allowed.

    For `propertyNames` the validator copies the whole mapping into the failure of every bad key.
    """
    if isinstance(node, list):
        return [_with_key_patterns(item) for item in node]
    if not isinstance(node, dict):
        return node
    found = {key: _with_key_patterns(value) for key, value in node.items() if key != "propertyNames"}
    names = node.get("propertyNames")
    if isinstance(names, dict):
        bad_key = f"^(?!{names['pattern'].removeprefix('^')})"
        found["allOf"] = [{"patternProperties": {bad_key: False}, "description": names["description"]}]
    return found


@cache
def _file_schema(kind: str) -> dict[str, Any]:
    folder = FilePath(__file__).with_name("schemas")  # importlib.resources would cost more than the check
    core: dict[str, Any] = msgspec.json.decode((folder / "kubernetes.json").read_bytes())
    if kind != KIND:
        return {"$schema": _DIALECT, "$ref": f"#/$defs/{kind}", "$defs": core}
    schema: dict[str, Any] = msgspec.json.decode((folder / "job.json").read_bytes())
    schema["$defs"] |= core
    return schema
