"""A small Job to break in one place at a time."""

from __future__ import annotations

from typing import Any

from tests import documents
from vcjob.admission.review import Admission, admit
from vcjob.spec.problem import Problem


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "img:1", **fields}


def template(*containers: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"spec": {"restartPolicy": "Never", "containers": list(containers) or [container()], **fields}}


def task(name: str = "work", replicas: int = 1, **fields: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": template(), **fields}


def job(*tasks: dict[str, Any], name: str = "j", **fields: Any) -> dict[str, Any]:
    return documents.job(name, *(tasks or [task()]), **fields)


def pytorch_job(*arguments: str, **fields: Any) -> dict[str, Any]:
    tasks = fields.pop("tasks", None) or [task("master"), task("worker", 2)]
    plugins = {"pytorch": list(arguments), **fields.pop("plugins", {})}
    return job(*tasks, plugins=plugins, **fields)


def admitted(doc: dict[str, Any], **options: Any) -> Admission:
    result = admit(doc, **options)
    assert result.valid, result.problems
    return result


def errors(doc: dict[str, Any], **options: Any) -> list[Problem]:
    result = admit(doc, **options)
    found = [problem for problem in result.problems if problem.severity == "error"]
    assert (result.job is None) == bool(found)
    return found


def refused(doc: dict[str, Any], path: str, words: str, **options: Any) -> Problem:
    """The one error of a Job."""
    (problem,) = errors(doc, **options)
    assert problem.path == path
    assert words in problem.message
    return problem


def warned(doc: dict[str, Any], path: str, words: str, **options: Any) -> Problem:
    """The one warning of a Job that is admitted."""
    (problem,) = admitted(doc, **options).problems
    assert problem.severity == "warning"
    assert problem.path == path
    assert words in problem.message
    return problem
