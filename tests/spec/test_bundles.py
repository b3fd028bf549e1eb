"""Files contain Jobs and the ConfigMaps, Secrets and claims that they use; any other kind is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vcjob.errors import SourceError
from vcjob.spec.bundle import Bundle, load, load_text

JOB = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: j}\nspec: {}\n"


def problem_of(bundle: Bundle) -> Any:
    (problem,) = bundle.problems
    return problem


def test_the_documents_are_sorted_by_kind() -> None:
    bundle = load_text(
        JOB
        + "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}\n"
        + "---\n{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: b}}\n"
        + "---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {accessModes: [ReadWriteOnce]}}\n"
        + "---\n"
        + JOB.replace("name: j", "name: k"),
        "f",
    )
    assert [job.name for job in bundle.jobs] == ["j", "k"]
    assert bundle.config_maps["c"]["data"] == {"a": "b"}
    assert bundle.secrets["s"]["stringData"] == {"a": "b"}
    assert list(bundle.claims) == ["p"]
    assert bundle.problems == []
    assert bundle.file == "f"


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (print, "a function is not a Job", "vcjob.run(vcjob.pytorch_job(print))"),
        ([{}], "a list is not a Job", "one Job at a time"),
        (b"kind: Job", "a bytes is not a Job", "the path of a file"),
        (None, "a NoneType is not a Job", "the path of a file"),
    ],
)
def test_what_cannot_be_a_source_is_refused(source: Any, message: str, hint: str) -> None:
    with pytest.raises(SourceError, match=message) as refused:
        load(source)
    assert hint in (refused.value.hint or "")


def test_a_path_a_text_and_a_dictionary_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    for source in (
        file,
        str(file),
        JOB,
        '{"kind": "Job", "metadata": {"name": "j"}}',
        {"kind": "Job", "metadata": {"name": "j"}},
    ):
        assert [job.name for job in load(source).jobs] == ["j"]


def test_problems_name_the_file_that_was_loaded(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: Pod\n")
    assert problem_of(load(file)).file == str(file)
    assert problem_of(load("kind: Pod\n")).file == "<text>"
    assert problem_of(load({"kind": "Pod"})).file is None
    assert problem_of(load('  {"kind": "Pod"}')).file == "<text>"


def test_problems_of_all_documents_are_kept() -> None:
    assert len(load_text("kind: Pod\n---\nkind: Node\n---\n- x\n").problems) == 3
    doubled = load_text(JOB + "---\n" + JOB + "kind: Job\n").jobs[1].problems
    assert [problem.path for problem in doubled] == ["kind", "metadata.name"]
    assert "another Job in this file has the name `j`" in doubled[1].message


def test_a_name_without_a_line_break_is_a_path() -> None:
    with pytest.raises(SourceError, match="no such file"):
        load("kind: Job")


def test_a_file_without_a_job_is_refused() -> None:
    for text in ("", "# nothing\n", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"):
        problem = problem_of(load_text(text, "f"))
        assert "no Job" in problem.message
        assert (problem.file, problem.line, problem.column) == ("f", 1, 1)
        assert "kind: Job" in problem.hint


def test_another_kind_is_refused_at_its_kind() -> None:
    problem = problem_of(load_text(JOB + "---\napiVersion: v1\nkind: Pod\n", "f"))
    assert (problem.path, problem.line, problem.column) == ("kind", 7, 1)
    assert "`Pod` is not supported here" in problem.message
    assert "ConfigMap" in problem.hint


@pytest.mark.parametrize(
    ("kind", "meant"), [("job", "Job"), ("Jobs", "Job"), ("Configmap", "ConfigMap"), ("secret", "Secret")]
)
def test_the_hint_for_a_misspelt_kind_suggests_the_right_one(kind: str, meant: str) -> None:
    assert f"`{meant}`" in problem_of(load_text(f"kind: {kind}\n")).hint


def test_a_missing_kind_is_refused() -> None:
    problem = problem_of(load_text("a: 1\n"))
    assert problem.message == "`kind` is missing"
    assert problem.line == 1


@pytest.mark.parametrize("value", ["5", "[Job]", "null", "{}"])
def test_a_kind_that_is_not_text_is_refused(value: str) -> None:
    assert problem_of(load_text(f"kind: {value}\n")).path == "kind"


@pytest.mark.parametrize(
    ("text", "shown"), [("- a\n- b\n", "a list"), ("just text\n", "text or a number"), ("5\n", "number")]
)
def test_a_document_that_is_not_a_mapping_is_refused(text: str, shown: str) -> None:
    problem = problem_of(load_text(text))
    assert shown in problem.message
    assert (problem.line, problem.column) == (1, 1)


def test_bad_syntax_is_a_problem_of_the_bundle() -> None:
    bundle = load_text(JOB + "---\na: [\n")
    assert len(bundle.jobs) == 1
    assert "not valid YAML" in problem_of(bundle).message


def test_problems_of_a_job_stay_with_the_job() -> None:
    bundle = load_text(JOB + "kind: Job\n")
    assert bundle.problems == []
    assert "twice" in bundle.jobs[0].problems[0].message


def test_two_jobs_of_one_name_are_refused_at_the_second() -> None:
    bundle = load_text(JOB + "---\n" + JOB)
    assert bundle.jobs[0].problems == []
    (problem,) = bundle.jobs[1].problems
    assert (problem.path, problem.line) == ("metadata.name", 8)


def test_jobs_of_one_name_in_two_namespaces_are_fine() -> None:
    other = JOB.replace("name: j", "name: j, namespace: n")
    assert [job.problems for job in load_text(JOB + "---\n" + other).jobs] == [[], []]


@pytest.mark.parametrize("metadata", ["5", "null", "[]", "{}"])
def test_jobs_without_a_readable_name_are_kept_for_admission(metadata: str) -> None:
    text = JOB.replace("{name: j}", metadata)
    assert len(load_text(text + "---\n" + text).jobs) == 2


def test_two_config_maps_of_one_name_are_refused() -> None:
    one = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n"
    bundle = load_text(JOB + one + one)
    assert "another ConfigMap in this file has the name `c`" in problem_of(bundle).message


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: 1}}", "data.a"),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, dta: {}}", "dta"),
        ("{apiVersion: v2, kind: Secret, metadata: {name: c}}", "apiVersion"),
        ("{apiVersion: v1, kind: Secret, metadata: {}}", "metadata"),
        (
            "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: p}, spec: {accessModes: [Often]}}",
            "spec.accessModes[0]",
        ),
    ],
)
def test_companions_are_checked_too(text: str, path: str) -> None:
    problem = problem_of(load_text(JOB + "---\n" + text))
    assert problem.path == path
    assert problem.line == 6
