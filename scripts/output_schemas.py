"""The form of what the verbs print with `-o json`: JSON Schemas, and the tables of docs/reference/json.md.

The schemas are derived from the types that the verbs print, or declared here where a verb builds its output on its
own. tests/cli/test_json_output.py runs every verb and fails on a field that is not listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from vcjob.diagnosis.check import Check
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.stacks import RankStack
from vcjob.report.failure import FailureReport
from vcjob.report.podstate import PodState
from vcjob.report.timeline import Span
from vcjob.report.usage import UsageReport
from vcjob.sdk.log_lines import LogLine
from vcjob.spec.problem import Severity


class JobObject(msgspec.Struct, omit_defaults=True, rename="camel"):
    api_version: Literal["batch.volcano.sh/v1alpha1"]
    kind: Literal["Job"]
    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any] = {}


class StatusDetails(msgspec.Struct, omit_defaults=True, rename="camel"):
    pods: list[PodState] = []
    failure: FailureReport | None = None


class ObjectList(msgspec.Struct, omit_defaults=True, rename="camel"):
    api_version: Literal["v1"]
    kind: Literal["List"]
    items: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


class Findings(msgspec.Struct):
    findings: list[Finding]


class ProblemRecord(msgspec.Struct):
    severity: Severity
    path: str
    message: str
    hint: str | None
    file: str | None
    line: int | None
    column: int | None


class Validation(msgspec.Struct):
    valid: bool
    problems: list[ProblemRecord]


class ErrorRecord(msgspec.Struct, omit_defaults=True):
    message: str
    hint: str | None
    problems: list[ProblemRecord] = []


class ErrorOutput(msgspec.Struct):
    error: ErrorRecord


class Checks(msgspec.Struct, omit_defaults=True):
    local: list[Check] = []
    cluster: list[Check] = []


class StackGroupRecord(msgspec.Struct):
    ranks: list[int]
    pods: list[str]
    text: str


class Stacks(msgspec.Struct):
    ranks: list[RankStack]
    groups: list[StackGroupRecord]


class TimelinePod(msgspec.Struct):
    task: str
    index: int
    rank: int | None
    name: str
    spans: list[Span]


class TimelineRecord(msgspec.Struct):
    job: str
    start: float
    end: float
    summary: str
    totals: dict[str, float]
    pods: list[TimelinePod]


class FieldRecord(msgspec.Struct, omit_defaults=True):
    path: str
    type: str
    meaning: str
    default: str | None
    name: str = ""


class Explanation(msgspec.Struct):
    path: str
    type: str
    meaning: str
    default: str | None
    fields: list[FieldRecord]


class WarmServer(msgspec.Struct, rename="camel"):
    pid: int
    python: str
    modules: list[str]
    started_at: str
    import_seconds: float
    idle_seconds: float
    memory_mi_b: float = msgspec.field(name="memoryMiB")


class WarmServers(msgspec.Struct):
    servers: list[WarmServer]


class Output(NamedTuple):
    """What some verbs print: the key of its schema, the verbs, the type and one sentence."""

    key: str
    verbs: str
    type: type
    meaning: str


OUTPUTS = (
    Output(
        "job",
        "run, status, wait, suspend, resume, restart, complete, stop, delete, convert",
        JobObject,
        "The Job with its status, as Kubernetes returns it. Several Jobs are a List.",
    ),
    Output(
        "status",
        "status",
        StatusDetails,
        "`vcjob status` adds these fields to `status` of the Job; `failure` only where the job failed.",
    ),
    Output(
        "list",
        "list, events, render, install",
        ObjectList,
        "A List of Kubernetes objects. `render` prints one Job (`--defaulted`) or one pod (`--index`) as it is.",
    ),
    Output("why", "why", Findings, "The findings, the most likely one first; empty where nothing is wrong."),
    Output("logs", "logs", LogLine, "One object per line. With `--timestamps`, `time` is a text."),
    Output("validate", "validate", Validation, "Every problem of the files."),
    Output("timeline", "timeline", TimelineRecord, "Where the time went. Times are in epoch seconds."),
    Output("stacks", "stacks", Stacks, "The Python stack of every rank, and the ranks at the same place."),
    Output("top", "top", UsageReport, "What every rank uses."),
    Output("doctor", "doctor", Checks, "The checks of the backends that were checked."),
    Output("explain", "explain", Explanation, "A field of a Job, and the fields in it."),
    Output(
        "warm", "warm start, warm stop, warm status", WarmServers, "The processes that keep torch loaded."
    ),
    Output("error", "", ErrorOutput, "What every verb prints on standard error where it fails."),
)


def schemas() -> dict[str, Any]:
    """A JSON Schema for each key. Fields that are not listed may be added in later versions.

    A type is described by the first paragraph of its docstring: the rest is for contributors.
    """
    found = {output.key: msgspec.json.schema(output.type) for output in OUTPUTS}
    for schema in found.values():
        for definition in schema["$defs"].values():
            if "description" in definition:
                definition["description"] = definition["description"].partition("\n\n")[0]
    return found


def rows(schema: dict[str, Any]) -> list[list[str]]:
    """Every field of a schema as a path, with its type and whether it is always present."""
    return [[f"`{path}`", kind, "✓" if always else ""] for path, kind, always in _fields(schema, schema, "")]


def _fields(node: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[tuple[str, str, bool]]:
    node = _resolved(node, root)
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here + _suffix(inner, root), _type(inner, root), name in node.get("required", ())
        yield from _fields(_content(inner, root), root, here + _suffix(inner, root))


def _resolved(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in node:
        found: dict[str, Any] = root["$defs"][node["$ref"].rpartition("/")[2]]
        return found
    return node


def _content(node: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """What a field holds: the item of a list, the object of a field that may be null."""
    node = _resolved(node, root)
    if "items" in node:
        return _content(node["items"], root)
    for option in node.get("anyOf", ()):
        if option.get("type") != "null":
            return _content(option, root)
    return node


def _suffix(node: dict[str, Any], root: dict[str, Any]) -> str:
    return "[]" if _resolved(node, root).get("type") == "array" else ""


def _type(node: dict[str, Any], root: dict[str, Any]) -> str:
    node = _resolved(node, root)
    if "enum" in node:
        return " | ".join(f"`{each}`" for each in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "anyOf" in node:
        return " | ".join(_type(option, root) for option in node["anyOf"])
    if node.get("type") == "array":
        return _type(node["items"], root)
    return str(node.get("type", "any"))
