"""`vcjob render`."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import GUIDE, Vcjob

NO_UID = "00000000-0000-0000-0000-000000000000"
UID = "6f1c2b0e-5d44-4a6e-9c0e-0a0b0c0d0e0f"


def names(objects: list[dict[str, Any]]) -> list[str]:
    return [f"{obj['kind']}/{obj['metadata']['name']}" for obj in objects]


WHOLE = [
    "ConfigMap/pytorch-job-svc",
    "Service/pytorch-job",
    "NetworkPolicy/pytorch-job",
    f"PodGroup/pytorch-job-{NO_UID}",
    "Pod/pytorch-job-master-0",
    "Pod/pytorch-job-worker-0",
    "Pod/pytorch-job-worker-1",
]


def test_yaml_is_the_default_and_json_is_a_list_of_the_same(vcjob: Vcjob) -> None:
    as_yaml = vcjob("render", GUIDE)
    assert (as_yaml.code, as_yaml.err) == (0, "")
    documents = list(yaml.safe_load_all(as_yaml.out))
    assert names(documents) == WHOLE
    listed = vcjob("render", GUIDE, "-o", "json").json
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    assert listed["items"] == documents


def test_the_wait_program_is_readable_in_yaml(vcjob: Vcjob) -> None:
    assert "    - sh\n    - -c\n    - |\n" in vcjob("render", GUIDE).out


@pytest.mark.parametrize("name", ["en", "zh", "old"])
def test_all_guides_render(vcjob: Vcjob, name: str) -> None:
    assert names(vcjob("render", f"tests/guides/guide.{name}.yaml", "-o", "json").json["items"]) == WHOLE


def test_one_pod_is_the_pod_itself(vcjob: Vcjob) -> None:
    one = vcjob("render", GUIDE, "--task", "worker", "--index", 1, "-o", "json").json
    assert names([one]) == ["Pod/pytorch-job-worker-1"]
    assert yaml.safe_load(vcjob("render", GUIDE, "--task", "worker", "--index", 1).out) == one
    assert one in vcjob("render", GUIDE, "-o", "json").json["items"]


def test_all_pods_of_a_task_are_a_list(vcjob: Vcjob) -> None:
    listed = vcjob("render", GUIDE, "--task", "worker", "-o", "json").json
    assert names(listed["items"]) == WHOLE[-2:]


def test_the_defaulted_job_is_the_job_itself(vcjob: Vcjob) -> None:
    job = vcjob("render", GUIDE, "--defaulted", "-o", "json").json
    assert job["kind"] == "Job"
    assert job["spec"]["queue"] == "default"
    assert job["spec"]["tasks"][1]["minAvailable"] == 2
    assert "svc" in job["spec"]["plugins"]
    assert yaml.safe_load(vcjob("render", GUIDE, "--defaulted").out) == job


@pytest.mark.parametrize(
    ("gang", "group", "scheduler"),
    [
        ("volcano", "scheduling.volcano.sh/v1beta1", "volcano"),
        ("none", None, None),
        ("coscheduling", "scheduling.x-k8s.io/v1alpha1", None),
    ],
)
def test_the_gang_can_be_chosen(vcjob: Vcjob, gang: str, group: str | None, scheduler: str | None) -> None:
    items = vcjob("render", GUIDE, "--gang", gang, "-o", "json").json["items"]
    groups = [obj["apiVersion"] for obj in items if obj["kind"] == "PodGroup"]
    assert groups == ([group] if group else [])
    assert items[-1]["spec"].get("schedulerName") == scheduler


def test_the_uid_can_be_given(vcjob: Vcjob) -> None:
    items = vcjob("render", GUIDE, "--uid", UID, "-o", "json").json["items"]
    assert {obj["metadata"]["ownerReferences"][0]["uid"] for obj in items} == {UID}
    assert f"PodGroup/pytorch-job-{UID}" in names(items)


def test_the_namespace_is_for_jobs_that_name_none(vcjob: Vcjob, tmp_path: Path) -> None:
    items = vcjob("render", GUIDE, "-n", "team", "-o", "json").json["items"]
    assert {obj["metadata"]["namespace"] for obj in items} == {"team"}
    assert items[1]["spec"]["selector"]["volcano.sh/job-namespace"] == "team"
    file = tmp_path / "job.yaml"
    file.write_text(
        Path(GUIDE).read_text().replace("  name: pytorch-job\n", "  name: pytorch-job\n  namespace: own\n")
    )
    assert vcjob("render", file, "-n", "own").code == 0
    refused = vcjob("render", file, "-n", "team")
    assert refused.code == 2
    assert refused.err == (
        "error: the Job pytorch-job is for the namespace own, not team\n"
        "hint: leave -n out, or the namespace in the Job\n"
    )


def test_standard_input_is_read_for_a_dash(vcjob: Vcjob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path(GUIDE).read_bytes())))
    assert names(vcjob("render", "-", "-o", "json").json["items"]) == WHOLE


def test_several_jobs_follow_each_other_and_what_stands_beside_them_is_not_rendered(
    vcjob: Vcjob, tmp_path: Path
) -> None:
    file = tmp_path / "jobs.yaml"
    other = Path(GUIDE).read_text().replace("name: pytorch-job", "name: other")
    claim = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
    file.write_text(f"{Path(GUIDE).read_text()}\n---\n{claim}---\n{other}")
    rendered = names(vcjob("render", file, "-o", "json").json["items"])
    assert rendered == WHOLE + [name.replace("pytorch-job", "other") for name in WHOLE]
    assert [
        job["metadata"]["name"] for job in vcjob("render", file, "--defaulted", "-o", "json").json["items"]
    ] == [
        "pytorch-job",
        "other",
    ]
    assert len(vcjob("render", file, "--task", "worker", "-o", "json").json["items"]) == 4
    several = vcjob("render", file, "--task", "worker", "--index", 0)
    assert several.code == 2
    assert several.err.startswith("error: several Jobs have a task 'worker': pytorch-job, other\nhint: ")


def test_unknown_fields_survive_where_they_are_allowed(vcjob: Vcjob, bad: Path) -> None:
    bad.write_text(
        bad.read_text()
        .replace("--port=abc", "")
        .replace("imge: c", "futureField: {z: [1, 1.50, null], a: '1e3'}")
    )
    assert vcjob("render", bad).code == 2
    pod = vcjob("render", bad, "--allow-unknown", "--task", "master", "--index", 0, "-o", "json").json
    assert json.dumps(pod["spec"]["containers"][0]["futureField"]) == '{"z": [1, 1.5, null], "a": "1e3"}'


def test_an_invalid_job_is_refused_with_all_its_problems_on_the_error_stream(vcjob: Vcjob, bad: Path) -> None:
    result = vcjob("render", bad)
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert [line.split(": ")[0] for line in lines if ": error: " in line] == [f"{bad}:5:23", f"{bad}:10:49"]
    assert lines[-1] == "error: the Job is not valid (2 errors)"


def test_with_json_an_invalid_job_is_refused_in_json(vcjob: Vcjob, bad: Path) -> None:
    result = vcjob("render", bad, "-o", "json")
    assert (result.code, result.out) == (2, "")
    error = json.loads(result.err)["error"]
    assert [problem["line"] for problem in error["problems"]] == [5, 10]
    assert error["message"].startswith("the Job is not valid: spec.plugins.pytorch[0]: ")
    assert error["hint"] is None


def test_warnings_go_to_the_error_stream(vcjob: Vcjob, bad: Path) -> None:
    bad.write_text(
        bad.read_text().replace("--port=abc", "").replace("imge: c", "env: [{name: RANK, value: x}]")
    )
    result = vcjob("render", bad, "-o", "json")
    assert result.code == 0
    assert result.json["kind"] == "List"
    assert result.err.startswith(f"{bad}:10:55: warning: ")


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["--task", "chief"], "there is no task 'chief'", "the tasks are: master, worker"),
        (["--task", "worker", "--index", "2"], "task 'worker' has no index 2", "its pods are 0 to 1"),
        (
            ["--task", "worker", "--index", "-1"],
            "Invalid value for '--index': it is -1, and it must be at least 0.",
            None,
        ),
        (["--index", "1"], "--index needs --task", "see `vcjob render --help`"),
        (["--defaulted", "--task", "worker"], "--defaulted and --task cannot be used together", None),
        (["--gang", "kueue"], "Invalid value for '--gang'", None),
        (["-o", "table"], "Invalid value for '-o'", None),
        (
            ["--index", "x", "--task", "worker"],
            "Invalid value for '--index': 'x' is not a whole number.",
            None,
        ),
        (
            ["--nonsense"],
            "No such option '--nonsense'",
            f"arguments for the program follow `--`: `vcjob render {GUIDE} -- --nonsense`",
        ),
        (["second.yaml"], "unexpected argument 'second.yaml': arguments for the program follow `--`", None),
        (
            ["--workers", "2"],
            "--workers is for a Python script, and tests/guides/",
            "change a field of the Job with --set, such as --set 'spec.tasks[1].replicas=4'",
        ),
        (
            ["--image", "a"],
            "--image is for a Python script, and tests/guides/",
            "change the image in the file, or with --set",
        ),
    ],
)
def test_bad_arguments_are_refused(
    vcjob: Vcjob, arguments: list[str], message: str, hint: str | None
) -> None:
    result = vcjob("render", GUIDE, *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {message}")
    assert f"\nhint: {hint or 'see `vcjob render --help`'}\n" in result.err


def test_a_missing_file_is_refused_in_both_forms(vcjob: Vcjob) -> None:
    assert vcjob("render", "nope.yaml") == (2, "", "error: nope.yaml: no such file\nhint: check the path\n")
    result = vcjob("render", "nope.yaml", "-o", "json")
    assert json.loads(result.err) == {
        "error": {"message": "nope.yaml: no such file", "hint": "check the path"}
    }


def test_a_job_without_pods_is_an_empty_list_of_pods(vcjob: Vcjob, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec:\n  tasks:\n"
        "    - name: none\n      replicas: 0\n      template: {spec: {containers: [{name: a, image: b}]}}\n"
    )
    assert vcjob("render", file, "--task", "none", "-o", "json").json == {
        "apiVersion": "v1",
        "kind": "List",
        "items": [],
    }
    assert vcjob("render", file, "--task", "none").out == ""


def test_a_script_is_rendered_as_the_job_that_run_starts(
    vcjob: Vcjob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('trained')\n")
    words = ("--workers", 1, "--env", "A=1", "train.py", "--epochs", "3")
    rendered = vcjob("render", "--defaulted", "-o", "json", *words).json
    assert [task["replicas"] for task in rendered["spec"]["tasks"]] == [1, 1]
    container = rendered["spec"]["tasks"][1]["template"]["spec"]["containers"][0]
    assert container["command"][1:] == ["train.py", "--epochs", "3"]
    assert container["env"] == [{"name": "A", "value": "1"}]
    missing = vcjob("render", "--on", "cluster", "train.py")
    assert (missing.code, "no image is named" in missing.err) == (2, True)
    on_cluster = vcjob("render", "--on", "cluster", "--image", "a:1", "-o", "json", "train.py").json["items"]
    assert on_cluster[-1]["spec"]["containers"][0]["image"] == "a:1"


def test_a_script_may_have_unknown_fields_where_they_are_allowed_and_options_with_underscores(
    vcjob: Vcjob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('trained')\n")
    words = ("--defaulted", "-o", "json", "--max_restarts", 1, "--set", "spec.futureField=1", "train.py")
    assert "--allow-unknown" in vcjob("render", *words).err
    spec = vcjob("render", "--allow-unknown", *words).json["spec"]
    assert (spec["maxRetry"], spec["futureField"]) == (2, 1)


def test_the_stored_job_of_a_script_is_what_render_showed_before(
    vcjob: Vcjob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print('trained')\n")
    assert vcjob("run", "--workers", 1, "train.py").code == 0
    before = vcjob("render", "-n", "default", "--workers", 1, "-o", "json", "train.py").out
    uid = vcjob("status", "train", "-o", "json").json["metadata"]["uid"]
    after = vcjob("render", "train", "-o", "json").out
    assert after == before.replace(NO_UID, uid)
    assert vcjob("render", uid, "-o", "json").out == after


def test_a_name_that_is_neither_a_file_nor_a_job_is_refused(vcjob: Vcjob) -> None:
    refused = vcjob("render", "nothing")
    assert refused == (
        2,
        "",
        "error: nothing: no such file, and no job of that name\nhint: `vcjob list` shows the jobs\n",
    )


def test_changes_of_a_job_file_are_rendered(vcjob: Vcjob) -> None:
    pod = vcjob("render", GUIDE, "-o", "json", "--set", "spec.tasks[1].replicas=1", "--env", "A=1", "--", "x")
    items = pod.json["items"]
    assert names(items) == WHOLE[:-1]
    assert items[-1]["spec"]["containers"][0]["args"] == ["x"]
