"""All problems are reported at once with their places, and none that only follows from another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.admission.cases import errors, job, pytorch_job, task, template
from vcjob.admission.readable import Unreadable
from vcjob.admission.review import Admission, admit
from vcjob.spec.bundle import load

GUIDE = (Path(__file__).parent.parent / "guides" / "guide.en.yaml").read_text()


def reviewed(text: str) -> Admission:
    (document,) = load(text).jobs
    return admit(document)


def paths(result: Admission) -> list[str]:
    return [problem.path for problem in result.problems]


def test_problems_of_every_kind_come_together_in_the_order_of_the_file() -> None:
    text = GUIDE
    for right, wrong in (
        ("minAvailable: 1", "minAvailable: 9\n  minAvailable: 2"),
        ('"--port=23456"', '"--port=abc"'),
        ("event: TaskCompleted", "event: TaskComplete"),
        (
            "imagePullPolicy: IfNotPresent\n              name: master",
            "imagePullPolicy: Often\n              name: master",
        ),
        ("workingDir", "workingdir"),
    ):
        assert right in text
        text = text.replace(right, wrong, 1)
    result = reviewed(text)
    assert paths(result) == [
        "spec.minAvailable",
        "spec.minAvailable",
        "spec.plugins.pytorch[2]",
        "spec.tasks[0].policies[0].event",
        "spec.tasks[0].template.spec.containers[0].imagePullPolicy",
        "spec.tasks[1].template.spec.containers[0].workingdir",
    ]
    lines = text.splitlines()
    shown = [
        lines[(problem.line or 0) - 1][(problem.column or 0) - 1 :].split()[0] for problem in result.problems
    ]
    assert shown == [
        "minAvailable:",
        "minAvailable:",
        '"--port=abc",',
        "event:",
        "imagePullPolicy:",
        "workingdir:",
    ]
    assert result.job is None
    assert all(problem.file == "<text>" for problem in result.problems)


def test_after_a_wrong_type_the_rest_is_still_checked() -> None:
    doc = job(
        task("a", policies="x"),
        task("b", minAvailable=5),
        queue=5,
        policies=[{"event": "X", "action": "AbortJob"}],
    )
    assert {problem.path for problem in errors(doc)} == {
        "spec.tasks[0].policies",
        "spec.tasks[1].minAvailable",
        "spec.queue",
        "spec.policies[0].event",
    }


@pytest.mark.parametrize(
    ("broken", "path"),
    [
        ({"tasks": "x"}, "spec.tasks"),
        ({"tasks": [5]}, "spec.tasks[0]"),
        ({"tasks": [task("master"), None]}, "spec.tasks[1]"),
        ({"tasks": [task("master"), {**task(), "name": 5}]}, "spec.tasks[1].name"),
        ({"tasks": [task("master"), {**task("worker"), "replicas": "2"}]}, "spec.tasks[1].replicas"),
        (
            {"tasks": [task("master"), {**task("worker"), "template": {"spec": {"containers": "x"}}}]},
            "spec.tasks[1].template.spec.containers",
        ),
        (
            {"tasks": [task("master"), {**task("worker"), "template": {"spec": {}}}]},
            "spec.tasks[1].template.spec.containers",
        ),
        ({"plugins": {"pytorch": "--port=5"}}, "spec.plugins.pytorch"),
        ({"plugins": {"pytorch": [5]}}, "spec.plugins.pytorch[0]"),
        ({"plugins": []}, "spec.plugins"),
        ({"policies": [{"event": 5, "action": "AbortJob"}]}, "spec.policies[0].event"),
        ({"policies": [5]}, "spec.policies[0]"),
        ({"minAvailable": "all"}, "spec.minAvailable"),
        ({"volumes": [{"mountPath": 5, "volumeClaimName": "x"}]}, "spec.volumes[0].mountPath"),
    ],
)
def test_a_problem_that_only_follows_from_a_wrong_type_is_not_reported(
    broken: dict[str, Any], path: str
) -> None:
    doc = pytorch_job()
    doc["spec"].update(broken)
    assert [problem.path for problem in errors(doc)] == [path]


def test_the_plugins_are_checked_where_an_unrelated_field_of_a_task_cannot_be_read() -> None:
    doc = pytorch_job("--port=abc", tasks=[task("master", maxRetry="x"), task("worker")])
    assert [problem.path for problem in errors(doc)] == ["spec.tasks[0].maxRetry", "spec.plugins.pytorch[0]"]


@pytest.mark.parametrize("key", ["metadata", "spec"])
@pytest.mark.parametrize("value", [None, 5, [], "x"])
def test_a_document_without_its_main_parts(key: str, value: Any) -> None:
    found = errors({**job(), key: value})
    assert found
    assert all(problem.where[0] == key for problem in found)


@pytest.mark.parametrize("doc", [{}, {"kind": "Job"}])
def test_the_missing_fields_of_an_empty_document_are_reported(doc: dict[str, Any]) -> None:
    assert {"`apiVersion` is missing", "`metadata` is missing", "`spec` is missing"} <= {
        p.message for p in errors(doc)
    }


@pytest.mark.parametrize("data", [None, 5, [], "x"])
def test_a_document_that_is_not_a_mapping_is_refused(data: Any) -> None:
    assert not admit(data).valid


def test_problems_of_the_text_are_problems_of_the_job() -> None:
    result = reviewed(GUIDE + "kind: Job\n")
    assert [problem.path for problem in result.problems] == ["kind"]
    assert result.job is None


def test_warnings_do_not_refuse() -> None:
    result = admit(
        job(
            task(
                template=template(restartPolicy="OnFailure"), policies=[{"exitCode": 1, "action": "AbortJob"}]
            )
        )
    )
    assert result.valid
    assert result.job is not None
    assert result.job.doc is result.doc
    assert [problem.severity for problem in result.problems] == ["warning"]


def test_unknown_fields_are_errors_unless_they_are_allowed() -> None:
    doc = job(task(template=template(futureField=1)))
    assert [problem.path for problem in errors(doc)] == ["spec.tasks[0].template.spec.futureField"]
    assert admit(doc, allow_unknown=True).problems == []


def test_readable_leaves_out_what_cannot_be_read_and_nothing_else() -> None:
    data: dict[str, Any] = {"a": 1, "b": [1, "x", {"c": 2, "d": 3}], "e": {"f": 4}}
    assert Unreadable({}).removed_from(data) is data
    assert Unreadable({("a",): "object"}).removed_from(data) == {
        "b": [1, "x", {"c": 2, "d": 3}],
        "e": {"f": 4},
    }
    assert Unreadable({("b", 1): "object", ("b", 2, "c"): "array"}).removed_from(data)["b"] == [
        1,
        {},
        {"d": 3},
    ]
    assert Unreadable({("b", 0): "string"}).removed_from(data)["b"][0] == ""
    assert Unreadable({("e",): "object", ("e", "f", "g"): "null"}).removed_from(data) == {
        "a": 1,
        "b": data["b"],
    }
    assert Unreadable({(): "object"}).removed_from(data) == {}
    assert data == {"a": 1, "b": [1, "x", {"c": 2, "d": 3}], "e": {"f": 4}}


def test_an_unreadable_place_concerns_what_is_above_and_below_it() -> None:
    assert not Unreadable({("a", "c"): "string", ("d",): "string"}).concerns(("a", "b"))
    for bad in (("a",), ("a", "b"), ("a", "b", "c"), ()):
        assert Unreadable({bad: "string"}).concerns(("a", "b"))
