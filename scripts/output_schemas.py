"""The form of what the verbs print with `-o json`: JSON Schemas, and the tables of docs/reference/json.md.

The schemas are derived from the types that the verbs print, or declared here where a verb builds its output on its
own. The meaning of a field is the comment `#: ...` above it. tests/cli/test_json_output.py runs every verb and fails on
a field that is not listed here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
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
    #: The API version.
    api_version: Literal["batch.volcano.sh/v1alpha1"]
    #: The kind of the object.
    kind: Literal["Job"]
    #: The name, namespace, uid, labels and annotations.
    metadata: dict[str, Any]
    #: The spec of the Job.
    spec: dict[str, Any]
    #: The phase, the counters of pods and the history.
    status: dict[str, Any] = {}


class StatusDetails(msgspec.Struct, omit_defaults=True, rename="camel"):
    #: Every pod of every attempt that is known.
    pods: list[PodState] = []
    #: Why the job failed.
    failure: FailureReport | None = None


class ObjectList(msgspec.Struct, omit_defaults=True, rename="camel"):
    #: The API version.
    api_version: Literal["v1"]
    #: The kind of the object.
    kind: Literal["List"]
    #: The objects.
    items: list[dict[str, Any]]
    #: Empty.
    metadata: dict[str, Any] = {}


class Findings(msgspec.Struct):
    #: The most likely one first.
    findings: list[Finding]


class ProblemRecord(msgspec.Struct):
    #: An `error` refuses the Job; a `warning` does not.
    severity: Severity
    #: The place in the Job, for example `spec.tasks[0].name`.
    path: str
    #: What is wrong.
    message: str
    #: What to write instead.
    hint: str | None
    #: The file that it is in.
    file: str | None
    #: The line in the file.
    line: int | None
    #: The column in the line.
    column: int | None


class Validation(msgspec.Struct):
    #: Whether there are no errors.
    valid: bool
    #: Errors and warnings, in the order of the files.
    problems: list[ProblemRecord]


class ErrorRecord(msgspec.Struct, omit_defaults=True):
    #: What is wrong.
    message: str
    #: What to do.
    hint: str | None
    #: The problems of an invalid Job.
    problems: list[ProblemRecord] = []


class ErrorOutput(msgspec.Struct):
    #: Why the verb failed.
    error: ErrorRecord


class Checks(msgspec.Struct, omit_defaults=True):
    #: This machine.
    local: list[Check] = []
    #: The cluster.
    cluster: list[Check] = []


class StackGroupRecord(msgspec.Struct):
    #: The ranks at the same place.
    ranks: list[int]
    #: The names of their pods.
    pods: list[str]
    #: Where they are, as one sentence.
    text: str


class Stacks(msgspec.Struct):
    #: The stack of each rank.
    ranks: list[RankStack]
    #: Ranks at the same place, the largest group first.
    groups: list[StackGroupRecord]


class TimelinePod(msgspec.Struct):
    #: The task that it belongs to.
    task: str
    #: Its index in the task.
    index: int
    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None
    #: The name for users: `rank 1 (worker-0)`.
    name: str
    #: The parts of its life, over all of its attempts, oldest first.
    spans: list[Span]


class TimelineRecord(msgspec.Struct):
    #: The name of the Job.
    job: str
    #: When the Job was created.
    start: float
    #: When it ended, or now.
    end: float
    #: Where the time went, as one line.
    summary: str
    #: Seconds of each kind, averaged over the pods.
    totals: dict[str, float]
    #: One entry for each pod.
    pods: list[TimelinePod]


class FieldRecord(msgspec.Struct, omit_defaults=True):
    #: The path of the field.
    path: str
    #: Its type.
    type: str
    #: What it means.
    meaning: str
    #: The value without it.
    default: str | None
    #: The last part of the path.
    name: str = ""


class Explanation(msgspec.Struct):
    #: The path of the field.
    path: str
    #: Its type.
    type: str
    #: What it means.
    meaning: str
    #: The value without it.
    default: str | None
    #: The fields in it.
    fields: list[FieldRecord]


class WarmServer(msgspec.Struct, rename="camel"):
    #: The process.
    pid: int
    #: Its interpreter.
    python: str
    #: What it has imported.
    modules: list[str]
    #: When it started, in RFC 3339.
    started_at: str
    #: How long the imports took.
    import_seconds: float
    #: After how long without use it ends.
    idle_seconds: float
    #: The memory that it takes, shared pages counted in part.
    memory_mi_b: float = msgspec.field(name="memoryMiB")


class WarmServers(msgspec.Struct):
    #: The processes.
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


class Field(NamedTuple):
    """A field of a verb's output, by its path."""

    path: str
    type: str
    always: bool
    meaning: str


@cache
def schemas() -> dict[str, Any]:
    """A JSON Schema for each key. Fields that are not listed may be added in later versions."""
    return {output.key: schema_of(output.type) for output in OUTPUTS}


def schema_of(kind: type) -> dict[str, Any]:
    """The JSON Schema of a type. Each field is described by the comment above it, and each type by the first paragraph of
    its docstring: the rest is for contributors."""
    schema = msgspec.json.schema(kind)
    for struct in _structs(msgspec.inspect.type_info(kind)):
        definition, meanings = schema["$defs"][struct.__name__], meanings_of(struct)
        if "description" in definition:
            definition["description"] = definition["description"].partition("\n\n")[0]
        properties = definition["properties"]
        for field in msgspec.structs.fields(struct):
            described = {"description": meanings[field.name], **properties[field.encode_name]}
            properties[field.encode_name] = described
    return schema


def meanings_of(struct: type) -> dict[str, str]:
    """The comments above the fields of a struct, by the name of the field."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in inspect.getsource(struct).splitlines():
        if match := re.match(r"    #: ?(.*)", line):
            comment.append(match[1])
            continue
        if (match := re.match(r"    (\w+): ", line)) and comment:
            found[match[1]] = " ".join(comment)
        comment = []
    return found


def _structs(kind: Any) -> Iterator[Any]:
    """The structs that a type consists of."""
    if isinstance(kind, msgspec.inspect.StructType):
        yield kind.cls
        for field in kind.fields:
            yield from _structs(field.type)
    elif isinstance(kind, msgspec.inspect.UnionType):
        for each in kind.types:
            yield from _structs(each)
    elif isinstance(kind, (msgspec.inspect.ListType, msgspec.inspect.VarTupleType)):
        yield from _structs(kind.item_type)


def rows(kind: type, text: Callable[[str], str]) -> list[list[str]]:
    """Every field of an output as a path, with its type, whether it is always present, and its meaning."""
    schema = schema_of(kind)
    return [
        [f"`{field.path}`", field.type, "✓" if field.always else "", text(field.meaning)]
        for field in _fields(schema, schema, "")
    ]


def _fields(node: dict[str, Any], root: dict[str, Any], path: str) -> Iterator[Field]:
    node = _resolved(node, root)
    for name, inner in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        always = name in node.get("required", ())
        yield Field(here + _suffix(inner, root), _type(inner, root), always, inner["description"])
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
