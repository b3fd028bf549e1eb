"""The schema check reports every wrong field with its path, the reason and what to write instead."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from vcjob.spec import schema
from vcjob.spec.document import Document
from vcjob.spec.problem import Problem
from vcjob.spec.source import load_documents

GUIDES = sorted((Path(__file__).parent.parent / "guides").glob("*.yaml"))
POD = ("spec", "tasks", 1, "template", "spec")
CONTAINER = (*POD, "containers", 0)


@pytest.fixture
def job() -> dict[str, Any]:
    return copy.deepcopy(load_documents(GUIDES[0].read_text())[0].data)


def put(job: dict[str, Any], where: tuple[Any, ...], value: Any) -> None:
    node: Any = job
    for step in where[:-1]:
        if isinstance(node, dict):
            node = node.setdefault(step, {})
        else:
            node = node[step]
    node[where[-1]] = value


def check(job: Document | dict[str, Any], *, allow_unknown: bool = False) -> list[Problem]:
    """All schema problems of a Job, with their places where the document has a file."""
    document = job if isinstance(job, Document) else Document.of(job)
    examined = schema.examine(document.data, allow_unknown=allow_unknown)
    return document.locate([*document.problems, *examined.problems])


def found(job: dict[str, Any], **options: Any) -> Problem:
    (problem,) = check(job, **options)
    return problem


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_guides_fit_the_schema(guide: Path) -> None:
    assert [check(document) for document in load_documents(guide.read_text())] == [[]]


@pytest.mark.parametrize(
    ("where", "name", "meant"),
    [
        (CONTAINER, "imge", "image"),
        (CONTAINER, "imagePullpolicy", "imagePullPolicy"),
        (CONTAINER, "enviroment", None),
        ((*CONTAINER, "resources"), "limit", "limits"),
        ((*CONTAINER, "securityContext", "capabilities"), "ad", "add"),
        (POD, "restartpolicy", "restartPolicy"),
        ((*POD, "affinity", "podAffinity"), "requiredDuringScheduling", None),
        (("spec", "tasks", 0), "replica", "replicas"),
        (("spec", "tasks", 0, "policies", 0), "exitcode", "exitCode"),
        (("spec",), "minAvailble", "minAvailable"),
        (("metadata",), "lables", "labels"),
        ((), "Spec", "spec"),
    ],
)
def test_an_unknown_field_is_found_with_its_place_and_the_nearest_name(
    job: dict[str, Any], where: tuple[Any, ...], name: str, meant: str | None
) -> None:
    put(job, (*where, name), "x")
    problem = found(job)
    assert problem.where == (*where, name)
    assert problem.message == f"unknown field `{name}`"
    assert problem.hint
    assert meant is None or f"`{meant}`" in problem.hint


@pytest.mark.parametrize(
    ("where", "name", "hint"),
    [
        (CONTAINER, "nodeSelector", "move it to `spec.tasks[1].template.spec`"),
        (CONTAINER, "schedulerName", "move it to `spec.tasks[1].template.spec`"),
        (CONTAINER, "plugins", "move it to `spec`"),
        (("spec", "tasks", 0), "metadata", "move it to the top level of the document"),
        (("spec", "tasks", 1, "template"), "containers", "move it to `spec.tasks[1].template.spec`"),
        (
            ("spec", "networkTopology"),
            "zzz",
            "the known fields are highestTierAllowed, highestTierName, mode",
        ),
        (POD, "zzz", "remove it, or pass --allow-unknown to accept unknown fields"),
    ],
)
def test_the_hint_for_a_misplaced_field_names_the_right_place(
    job: dict[str, Any], where: tuple[Any, ...], name: str, hint: str
) -> None:
    put(job, (*where, name), {})
    assert found(job).hint == hint


def test_several_unknown_fields_of_one_mapping_are_all_found(job: dict[str, Any]) -> None:
    put(job, (*CONTAINER, "imge"), 1)
    put(job, (*CONTAINER, "comand"), 1)
    assert {problem.where[-1] for problem in check(job)} == {"imge", "comand"}


def test_unknown_fields_pass_with_allow_unknown(job: dict[str, Any]) -> None:
    put(job, (*CONTAINER, "futureField"), {"a": 1})
    put(job, ("spec", "futureField"), 1)
    assert check(job, allow_unknown=True) == []
    put(job, (*CONTAINER, "image"), 5)
    assert found(job, allow_unknown=True).path.endswith("containers[0].image")


@pytest.mark.parametrize("labels", [{"a": "bad value"}, {"bad key": "a"}, {"a": 5}])
def test_keys_and_values_of_mappings_are_checked_also_where_unknown_fields_pass(
    job: dict[str, Any], labels: dict[str, Any]
) -> None:
    put(job, ("metadata", "labels"), labels)
    assert found(job, allow_unknown=True).where == ("metadata", "labels", *labels)


def test_line_and_column_are_those_of_the_field() -> None:
    text = GUIDES[0].read_text().replace("imagePullPolicy: IfNotPresent", "imagePullPolicy: ifnotpresent", 1)
    (problem,) = check(load_documents(text, "guide.yaml")[0])
    lines = text.splitlines()
    assert lines[(problem.line or 0) - 1][(problem.column or 0) - 1 :] == "imagePullPolicy: ifnotpresent"
    assert problem.file == "guide.yaml"
    assert problem.hint == "did you mean `IfNotPresent`?"


@pytest.mark.parametrize(
    ("where", "value", "message", "hint"),
    [
        (
            ("spec", "tasks", 0, "replicas"),
            "1",
            "must be a whole number, not the text `1`",
            "write it without quotes: 1",
        ),
        (
            ("spec", "tasks", 0, "replicas"),
            1.5,
            "must be a whole number, not the number 1.5",
            "write a number without a fraction",
        ),
        (
            ("spec", "tasks", 0, "replicas"),
            True,
            "must be a whole number, not `true`",
            "write a number without a fraction",
        ),
        (
            ("spec", "suspend"),
            "true",
            "must be true or false, not the text `true`",
            "write it without quotes: true",
        ),
        ((*CONTAINER, "image"), 5, "must be text, not the number 5", 'write it in quotes: "5"'),
        (("metadata", "labels", "a"), False, "must be text, not `false`", 'write it in quotes: "false"'),
        (
            ("spec", "plugins", "svc"),
            "x",
            "must be a list (`- item`), not the text `x`",
            "put `- ` before each item",
        ),
        (
            ("spec", "tasks"),
            {"a": 1},
            "must be a list (`- item`), not a mapping",
            "put `- ` before each item",
        ),
        (
            ("spec", "tasks", 0),
            [],
            "must be a mapping (`key: value`), not a list",
            "write `key: value` lines",
        ),
        (
            ("spec", "plugins", "svc"),
            [None],
            "must be text, not empty",
            "write a value, or remove the line",
        ),
        (
            (*POD, "containers"),
            [None],
            "must be a mapping (`key: value`), not empty",
            "write a value, or remove the line",
        ),
        (("spec",), 5, "must be a mapping (`key: value`), not the number 5", "write `key: value` lines"),
        ((*CONTAINER, "resources"), {"limits": {"cpu": []}}, "must be a number or text, not a list", None),
        (
            (*CONTAINER, "livenessProbe"),
            {"httpGet": {"port": {}}},
            "must be a whole number or text, not a mapping",
            "write a number without a fraction",
        ),
    ],
)
def test_a_wrong_type_gets_a_message_with_both_types(
    job: dict[str, Any], where: tuple[Any, ...], value: Any, message: str, hint: str | None
) -> None:
    put(job, where, value)
    problem = found(job)
    assert problem.where[: len(where)] == where
    assert problem.message == message
    assert problem.hint == hint or (hint and (problem.hint or "").startswith(hint))


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ((*POD, "restartPolicy"), "Sometimes", "not one of Always, OnFailure, Never"),
        ((*POD, "dnsPolicy"), "Cluster", "not one of ClusterFirst"),
        ((*CONTAINER, "imagePullPolicy"), "Allways", "not one of Always, IfNotPresent, Never"),
        ((*CONTAINER, "terminationMessagePolicy"), "Log", "not one of File, FallbackToLogsOnError"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "protocol": "tcp"}], "not one of TCP, UDP, SCTP"),
        ((*POD, "tolerations"), [{"operator": "exists"}], "not one of Exists, Equal"),
        (("spec", "tasks", 0, "topologyPolicy"), "numa", "not one of none, best-effort, restricted, single-numa-node"),
        (("spec", "tasks", 0, "dependsOn"), {"iteration": "some"}, "not one of any, all"),
        (("spec", "networkTopology"), {"mode": "hardest"}, "not one of hard, soft"),
        ((*CONTAINER, "ports"), [{"containerPort": 0}], "0 is too small: it should be greater than or equal to 1"),
        ((*CONTAINER, "ports"), [{"containerPort": 65536}], "65536 is too large: it should be less than or equal to 65535"),
        ((*POD, "priority"), 2**31, "too large"),
        ((*POD, "securityContext"), {"runAsUser": -1}, "-1 is too small: it should be greater than or equal to 0"),
        (("spec", "tasks", 0, "replicas"), -1, "-1 is too small: it should be greater than or equal to 0"),
        (("spec", "minSuccess"), 0, "0 is too small: it should be greater than or equal to 1"),
        (("spec", "maxRetry"), 2**31, "too large"),
        ((*POD, "containers"), [], "the list is empty"),
        (("spec", "schedulerName"), "x" * 64, "has 64 characters; at most 63 are allowed"),
        (("spec", "queue"), "Big_Queue", "`Big_Queue` is not a valid name"),
        (("spec", "runningEstimate"), "5 minutes", "is not a duration"),
        (("spec", "policies"), [{"timeout": ""}], "`` is not a duration"),
        ((*CONTAINER, "name"), "Main", "`Main` is not a valid name"),
        ((*CONTAINER, "name"), "a" * 64, "is not a valid name"),
        ((*CONTAINER, "image"), " img", "is not an image name"),
        ((*CONTAINER, "env"), [{"name": "A=B"}], "`A=B` is not a variable name"),
        ((*CONTAINER, "env"), [{"name": ""}], "`` is not a variable name"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "name": "UPPER"}], "is not a port name"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "name": "a--b"}], "is not a port name"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "name": "123"}], "is not a port name"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "name": "a" * 16}], "is not a port name"),
        ((*CONTAINER, "resources"), {"limits": {"cpu": "4 cores"}}, "`4 cores` is not a quantity"),
        ((*CONTAINER, "resources"), {"limits": {"memory": "10GB"}}, "is not a quantity"),
        ((*CONTAINER, "resources"), {"limits": {"gpu": 1}}, "`gpu` is not a resource of a container"),
        ((*CONTAINER, "resources"), {"requests": {"nvidia.com/": 1}}, "is not a resource of a container"),
        ((*CONTAINER, "volumeMounts"), [{"name": "x", "mountPath": "a:b"}], "is not a valid path"),
        ((*POD, "volumes"), [{"name": "x", "emptyDir": {"medium": "SSD"}}], "is not a medium"),
        ((*POD, "volumes"), [{"name": "x", "emptyDir": {"sizeLimit": "big"}}], "is not a quantity"),
        ((*POD, "hostname"), "a.b", "is not a valid name"),
        ((*POD, "nodeSelector"), {"bad key": "x"}, "`bad key` is not a label key"),
        ((*POD, "nodeSelector"), {"key": "bad value"}, "`bad value` is not a label value"),
        (("metadata", "labels"), {"-a": "x"}, "`-a` is not a label key"),
        (("metadata", "labels"), {"a": "x" * 64}, "is not a label value"),
        (("metadata", "annotations"), {"a b": "x"}, "`a b` is not an annotation key"),
    ],
)  # fmt: skip
def test_a_bad_value_gets_a_message_with_the_reason(
    job: dict[str, Any], where: tuple[Any, ...], value: Any, words: str
) -> None:
    put(job, where, value)
    problem = found(job)
    assert words in problem.message
    assert problem.where[: len(where)] == where


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ((*CONTAINER, "resources"), {"limits": {"cpu": 0.5, "memory": "1e3", "nvidia.com/gpu": 8, "hugepages-2Mi": "4Mi"}}),
        ((*CONTAINER, "resources"), {"requests": {"ephemeral-storage": "1.5Gi", "cpu": "100m"}}),
        ((*CONTAINER, "env"), [{"name": "a.b-c", "value": ""}, {"name": "1X", "value": None}]),
        ((*CONTAINER, "imagePullPolicy"), ""),
        ((*CONTAINER, "command"), None),
        ((*CONTAINER, "ports"), [{"containerPort": 1, "name": "a-1", "hostPort": 65535}]),
        ((*CONTAINER, "livenessProbe"), {"httpGet": {"port": "http"}, "periodSeconds": 0}),
        ((*POD, "restartPolicy"), None),
        ((*POD, "tolerations"), [{"operator": "Exists"}]),
        ((*POD, "volumes"), [{"name": "x", "emptyDir": {"medium": "HugePages-1Gi", "sizeLimit": "1Gi"}}]),
        ((*POD, "volumes"), [{"name": "x", "hostPath": {"path": "/x", "type": ""}}]),
        ((*POD, "topologySpreadConstraints"), [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]),
        (("metadata", "labels"), {"a": "", "example.com/b_c.d": "A-1", "n": None}),
        (("metadata", "annotations"), {"Example.com/Note": "any text\n"}),
        (("spec", "plugins"), None),
        (("spec", "tasks", 0, "policies"), None),
        (("spec", "runningEstimate"), "1h30m"),
        (("spec", "queue"), ""),
        (("status",), {"anything": 1}),
    ],
)  # fmt: skip
def test_what_the_api_server_accepts_is_accepted(
    job: dict[str, Any], where: tuple[Any, ...], value: Any
) -> None:
    put(job, where, value)
    assert check(job) == []


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("apiVersion", "batch.volcano.sh/v1alpha1"),
        ("kind", "Job"),
        ("metadata", "{name: my-job}"),
        ("spec", "{tasks: [...]}"),
    ],
)
def test_what_is_missing_at_the_top_is_named(job: dict[str, Any], name: str, example: str) -> None:
    del job[name]
    problem = found(job)
    assert (problem.path, problem.message) == (name, f"`{name}` is missing")
    assert problem.hint == f"add `{name}: {example}`"


def test_a_missing_field_of_a_container_is_placed_at_the_container() -> None:
    text = GUIDES[0].read_text().replace("              name: worker\n", "")
    (problem,) = check(load_documents(text)[0])
    assert problem.path == "spec.tasks[1].template.spec.containers[0].name"
    assert text.splitlines()[(problem.line or 0) - 1].strip().startswith("- image:")


@pytest.mark.parametrize("version", ["batch/v1", "batch.volcano.sh/v1", "v1", ""])
def test_a_wrong_api_version_is_refused(job: dict[str, Any], version: str) -> None:
    job["apiVersion"] = version
    problem = found(job)
    assert problem.path == "apiVersion"
    assert problem.hint == "write `apiVersion: batch.volcano.sh/v1alpha1`"


def test_kubernetes_own_job_is_reported_as_such(job: dict[str, Any]) -> None:
    job["apiVersion"] = "batch/v1"
    assert "Kubernetes' own Job" in found(job).message


def test_a_wrong_kind_is_refused(job: dict[str, Any]) -> None:
    job["kind"] = "CronJob"
    problem = found(job)
    assert (problem.path, problem.message, problem.hint) == (
        "kind",
        "`CronJob` is not a Job",
        "write `kind: Job`",
    )


def test_a_value_of_the_wrong_type_is_one_problem_not_two(job: dict[str, Any]) -> None:
    put(job, (*POD, "restartPolicy"), 5)
    assert found(job).message == "must be text, not the number 5"


def test_all_problems_are_found_at_once_in_the_order_of_the_file() -> None:
    text = GUIDES[0].read_text()
    for right, wrong in (
        ("minAvailable: 1", "minAvailable: x"),
        ("replicas: 2", "replicas: two"),
        ("workingDir", "workinDir"),
    ):
        text = text.replace(right, wrong)
    problems = check(load_documents(text)[0])
    assert [problem.where[-1] for problem in problems] == ["minAvailable", "replicas", "workinDir"]
    assert [problem.line for problem in problems] == sorted(problem.line or 0 for problem in problems)


def test_keys_of_digits_are_keys(job: dict[str, Any]) -> None:
    put(job, ("spec", "plugins", "0"), [5])
    assert found(job).where == ("spec", "plugins", "0", 0)


def test_a_document_that_is_not_a_mapping_is_refused() -> None:
    assert check([]) != []  # type: ignore[arg-type]


def test_long_and_strange_values_are_shown_short_and_on_one_line(job: dict[str, Any]) -> None:
    put(job, (*POD, "restartPolicy"), "x\n" * 100)
    message = found(job).message
    assert "\n" not in message
    assert len(message) < 140


def test_unreadable_places_are_named_with_the_type_that_is_wanted(job: dict[str, Any]) -> None:
    put(job, ("spec", "tasks", 0), "x")
    put(job, ("spec", "plugins", "pytorch"), 5)
    del job["spec"]["tasks"][1]["template"]["spec"]["containers"][0]["name"]
    put(job, (*POD, "restartPolicy"), "Sometimes")
    assert schema.examine(job).unreadable == {
        ("spec", "tasks", 0): "object",
        ("spec", "plugins", "pytorch"): "array",
        (*CONTAINER, "name"): "null",
    }
