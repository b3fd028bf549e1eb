"""Answers one AdmissionReview with another: defaults as a patch, errors as a refusal, warnings as warnings.

Pure: a dry run gets the same answer as a real request. The server calls `answer`; it raises `Malformed` for a body
that is not an AdmissionReview of a Job.
"""

from __future__ import annotations

import base64
from typing import Any, Literal, TypeAlias

import msgspec

from vcjob.admission.patch import json_patch
from vcjob.admission.review import Admission, Queues, admit
from vcjob.cluster.resources import JOB_GROUP
from vcjob.kube.api.codec import decode_nested_now
from vcjob.spec.job import KIND
from vcjob.spec.problem import Problem

Purpose: TypeAlias = Literal["mutate", "validate"]

API_VERSION = "admission.k8s.io/v1"
#: Further problems are only counted: a response must stay readable.
MOST_PROBLEMS = 50
#: The API server cuts a longer warning off, and drops warnings beyond 4096 characters in all.
LONGEST_WARNING = 256
_MOST_WARNING_TEXT = 4000
_LONGEST_NAME = 253


class Malformed(Exception):
    """The body is not an AdmissionReview of a Job; the message says why.

    The server answers with status 400. A Job with errors is no exception but a refusal.
    """


class _Kind(msgspec.Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Request(msgspec.Struct, rename="camel"):
    uid: str
    kind: _Kind
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review).decode


def answer(body: bytes, purpose: Purpose, *, queues: Queues | None = None) -> bytes:
    """The AdmissionReview that answers `body`. `queues` are the cluster's Queues, where it has any."""
    return _encode(_respond(_read(body), purpose, queues))


def _read(body: bytes) -> _Request:
    try:
        review = decode_nested_now(_decode, body)
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(f"this is not an AdmissionReview: {error}") from error
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise Malformed(f"this is a {review.kind} of {review.api_version}, not an AdmissionReview of v1")
    kind = review.request.kind
    if (kind.group, kind.kind) != (JOB_GROUP, KIND):
        raise Malformed(f"this webhook reviews Jobs of {JOB_GROUP}, not {kind.kind} of {kind.group}")
    return review.request


def _respond(request: _Request, purpose: Purpose, queues: Queues | None) -> dict[str, Any]:
    response: dict[str, Any] = {"uid": request.uid, "allowed": True}
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource:
        return response
    if request.object is None or (request.operation == "UPDATE" and request.old_object is None):
        raise Malformed(f"the review of a {request.operation} has no object")
    document = _with_namespace(request.object, request.namespace)
    admission = admit(
        document,
        backend="cluster",
        queues=queues or None,
        old=request.old_object if request.operation == "UPDATE" else None,
    )
    if not admission.valid:
        return {**response, "allowed": False, "status": _refusal(request, admission)}
    if purpose == "mutate":
        if _is_terminating(request.object):
            return response
        patch = json_patch(request.object, {**admission.doc, "metadata": request.object.get("metadata", {})})
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    elif warnings := _warnings(admission.problems):  # only here: both webhooks review every Job
        response["warnings"] = warnings
    return response


def _is_terminating(document: dict[str, Any]) -> bool:
    return bool((document.get("metadata") or {}).get("deletionTimestamp"))


def _with_namespace(document: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The Job as it will be stored; metadata of a wrong type is left to the checks."""
    metadata = document.get("metadata")
    if namespace and isinstance(metadata, dict) and not metadata.get("namespace"):
        return {**document, "metadata": {**metadata, "namespace": namespace}}
    return document


def _refusal(request: _Request, admission: Admission) -> dict[str, Any]:
    errors = [problem for problem in admission.problems if problem.severity == "error"]
    shown = [_path_and_text(problem) for problem in errors[:MOST_PROBLEMS]]
    left = len(errors) - len(shown)
    lines = [f"- {path}: {text}" if path else f"- {text}" for path, text in shown]
    if left:
        lines.append(f"- and {left} more")
    count = "one problem" if len(errors) == 1 else f"{len(errors)} problems"
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "\n".join([f"the Job is not valid, {count}:", *lines]),
        "details": {
            "group": JOB_GROUP,
            "kind": KIND,
            "name": request.name or _name(request.object),
            # kubectl prints these, one a line.
            "causes": [
                {"reason": "FieldValueInvalid", "field": path, "message": text} for path, text in shown
            ],
        },
    }


def _name(document: dict[str, Any] | None) -> str:
    metadata = (document or {}).get("metadata")
    name = metadata.get("name") or metadata.get("generateName") or "" if isinstance(metadata, dict) else ""
    return name[:_LONGEST_NAME] if isinstance(name, str) else ""


def _path_and_text(problem: Problem) -> tuple[str, str]:
    return problem.path, f"{problem.message} ({problem.hint})" if problem.hint else problem.message


def _warnings(problems: list[Problem]) -> list[str]:
    found: list[str] = []
    room = _MOST_WARNING_TEXT
    for problem in problems:
        if problem.severity != "warning":
            continue
        path, text = _path_and_text(problem)
        text = f"{path}: {text}" if path else text
        if len(text) > LONGEST_WARNING:
            text = text[: LONGEST_WARNING - 1] + "…"
        room -= len(text)
        if room < 0:
            break
        found.append(text)
    return found


def _encode(response: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})
