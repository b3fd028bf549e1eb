"""`vcjob validate`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import GUIDE, Vcjob
from vcjob import validate


def test_the_guides_are_valid(vcjob: Vcjob) -> None:
    files = [f"tests/guides/guide.{name}.yaml" for name in ("en", "zh", "old")]
    result = vcjob("validate", *files)
    assert result == (0, "".join(f"{file}: valid\n" for file in files), "")


def test_every_problem_has_its_place_its_reason_and_a_way_out(vcjob: Vcjob, bad: Path) -> None:
    result = vcjob("validate", bad)
    assert result.code == 2
    assert result.err == ""
    port, field = validate(bad)
    assert result.out.splitlines() == [
        f"{bad}:5:23: error: spec.plugins.pytorch[0]: {port.message}",
        f"  hint: {port.hint}",
        f"{bad}:10:49: error: spec.tasks[0].template.spec.containers[0].imge: {field.message}",
        f"  hint: {field.hint}",
        f"{bad}: not valid (2 errors)",
    ]


def test_json_has_the_documented_shape(vcjob: Vcjob, bad: Path) -> None:
    result = vcjob("validate", bad, "-o", "json")
    port, field = validate(bad)
    assert result.code == 2
    assert result.json == {
        "valid": False,
        "problems": [
            {
                "severity": "error",
                "path": "spec.plugins.pytorch[0]",
                "message": port.message,
                "hint": port.hint,
                "file": str(bad),
                "line": 5,
                "column": 23,
            },
            {
                "severity": "error",
                "path": "spec.tasks[0].template.spec.containers[0].imge",
                "message": field.message,
                "hint": field.hint,
                "file": str(bad),
                "line": 10,
                "column": 49,
            },
        ],
    }


def test_json_and_yaml_of_a_valid_job(vcjob: Vcjob) -> None:
    assert vcjob("validate", GUIDE, "-o", "json").json == {"valid": True, "problems": []}
    assert yaml.safe_load(vcjob("validate", GUIDE, "-o", "yaml").out) == {"valid": True, "problems": []}


def test_unknown_fields_pass_where_they_are_allowed(vcjob: Vcjob, bad: Path) -> None:
    bad.write_text(bad.read_text().replace("--port=abc", "--port=1234"))
    assert vcjob("validate", bad).code == 2
    assert vcjob("validate", bad, "--allow-unknown") == (0, f"{bad}: valid\n", "")


def test_warnings_alone_do_not_make_a_job_invalid(vcjob: Vcjob, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n  plugins: {pytorch: []}\n"
        "  tasks:\n    - name: master\n      replicas: 1\n"
        "      template: {spec: {containers: [{name: a, image: b, env: [{name: RANK, value: '7'}], command: [x]}], restartPolicy: Never}}\n"
    )
    result = vcjob("validate", file)
    assert result.code == 0
    [overridden] = validate(file)
    assert result.out.splitlines() == [
        f"{file}:9:64: warning: spec.tasks[0].template.spec.containers[0].env[0]: {overridden.message}",
        f"  hint: {overridden.hint}",
        f"{file}: valid (1 warning)",
    ]
    assert vcjob("validate", file, "-o", "json").json["valid"] is True


def test_standard_input_is_read_for_a_dash(vcjob: Vcjob, bad: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(bad.read_bytes())))
    result = vcjob("validate", "-")
    assert result.code == 2
    assert result.out.startswith("<stdin>:5:23: error: spec.plugins.pytorch[0]")
    assert result.out.endswith("-: not valid (2 errors)\n")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: path.write_bytes(b"\x7fELF\x00"), "is a program"),
        (lambda path: path.write_bytes(b"a: \xff\n"), "is not UTF-8 text"),
        (lambda path: path.write_bytes(b"x" * 50_000_000), "larger than 4 MiB"),
    ],
)
def test_a_file_that_cannot_be_read_does_not_hide_the_others(
    vcjob: Vcjob, bad: Path, tmp_path: Path, make: object, reason: str
) -> None:
    broken = tmp_path / "broken.yaml"
    make(broken)  # type: ignore[operator]
    result = vcjob("validate", broken, bad, GUIDE, "-o", "json")
    assert result.code == 2
    problems = result.json["problems"]
    assert len(problems) == 3
    assert reason in problems[0]["message"]
    assert problems[0]["file"] == str(broken)
    assert problems[0]["hint"]
    text = vcjob("validate", broken).out
    assert text.startswith(f"{broken}: error: {problems[0]['message']}\n  hint: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the file contains no Job"),
        ("[" * 30_000, "nested deeper than"),
        (
            "a: &a [x, x]\nb: &b [*a, *a]\n"
            + "".join(f"k{i}: &k{i} [*b, *b]\n" for i in range(3))
            + "c: [\n",
            "not valid YAML",
        ),
        ("kind: Deployment\n", "the kind `Deployment` is not supported here"),
        ("kind: Job\napiVersion: batch/v1\n", "batch/v1"),
    ],
)
def test_text_that_is_no_job_is_refused_with_its_place(
    vcjob: Vcjob, tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    result = vcjob("validate", file, "-o", "json")
    assert result.code == 2
    found = [problem for problem in result.json["problems"] if reason in problem["message"]]
    assert found
    assert all(problem["line"] and problem["column"] for problem in result.json["problems"])


def test_a_file_named_twice_is_checked_once(vcjob: Vcjob, bad: Path) -> None:
    assert len(vcjob("validate", bad, bad, "-o", "json").json["problems"]) == 2


def test_a_file_whose_name_looks_like_a_job_is_still_a_file(vcjob: Vcjob, tmp_path: Path) -> None:
    result = vcjob("validate", "{a}", "-o", "json")
    assert result.json["problems"][0]["message"] == "no such file"
