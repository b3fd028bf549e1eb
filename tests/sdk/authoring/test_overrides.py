"""Changes to a Job that come with the run: fields, environment, arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vcjob
from vcjob.local.pod.environment import expand
from vcjob.sdk.authoring.overrides import Overrides, parse_env


def changed(*sets: str, job: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    document = job if job is not None else vcjob.pytorch_job("a", command=["python", "train.py"], workers=2)
    Overrides(sets, **options).apply(document)
    return document


def container(job: dict[str, Any], task: int = 0, number: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["tasks"][task]["template"]["spec"]["containers"][number]
    return found


@pytest.mark.parametrize(
    "path", ["spec.tasks[1].replicas", "spec.tasks[worker].replicas", "spec.tasks.1.replicas"]
)
def test_an_item_of_a_list_is_found_by_its_position_or_its_name(path: str) -> None:
    assert changed(f"{path}=4")["spec"]["tasks"][1]["replicas"] == 4


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("true", True),
        ("'4'", "4"),
        ("a=b", "a=b"),
        ("[a, 1]", ["a", 1]),
        ("{a: 1}", {"a": 1}),
    ],
)
def test_a_value_is_what_it_would_be_in_the_file(text: str, value: object) -> None:
    assert changed(f"spec.x={text}")["spec"]["x"] == value


def test_missing_mappings_are_made_and_a_key_may_have_dots_in_brackets() -> None:
    job = changed(
        "metadata.labels[app.kubernetes.io/name]=bert",
        "metadata.labels[007]=x",
        "metadata.labels[1]=z",
        "spec.policies=[]",
        "spec.policies[0].action=AbortJob",
    )
    assert job["metadata"]["labels"] == {"app.kubernetes.io/name": "bert", "007": "x", "1": "z"}
    assert job["spec"]["policies"] == [{"action": "AbortJob"}]


def test_a_position_in_a_list_that_does_not_exist_creates_the_list() -> None:
    path = "spec.tasks[0].template.spec.containers[0].env"
    job = changed(f"{path}[0]={{name: A, value: '1'}}", f"{path}[1].name=B")
    assert container(job)["env"] == [{"name": "A", "value": "1"}, {"name": "B"}]


@pytest.mark.parametrize("nothing", ["", "null"])
def test_no_value_removes_a_field_or_an_item(nothing: str) -> None:
    job = vcjob.pytorch_job("a", script="train.py", queue="q")
    changed(f"spec.queue={nothing}", f"spec.tasks[1]={nothing}", f"spec.volumes[0].x={nothing}", job=job)
    assert list(job["spec"]) == ["plugins", "tasks"]
    assert [task["name"] for task in job["spec"]["tasks"]] == ["master"]
    with pytest.raises(vcjob.UserError, match="has 1 item"):
        changed(f"spec.tasks[1]={nothing}", job=job)


CONTAINER = "spec.tasks[0].template.spec.containers[0]"


@pytest.mark.parametrize(
    "given",
    ["spec=1", "metadata=1", "spec.tasks=x", "spec.tasks[0].template=1", "spec.tasks[0].template.spec=1",
     f"{CONTAINER}=1", f"{CONTAINER}.args=abc", f"{CONTAINER}.args=''", f"{CONTAINER}.env=5", f"{CONTAINER}.env=[5]",
     f"{CONTAINER}.env=[{{name: [a], value: b}}]", f"{CONTAINER}.command=python", "spec.plugins=3"],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_reported_and_not_replaced(given: str) -> None:
    overrides = Overrides([given], env={"A": "1"}, arguments=["z"], job="a")
    with pytest.raises(vcjob.InvalidJob):
        vcjob.load(vcjob.pytorch_job("a", command=["python"]), overrides=overrides)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("spec.queue", "is not PATH=VALUE"),
        ("=3", "is not PATH=VALUE"),
        ("spec..queue=a", "is not the path of a field"),
        ("spec.tasks[7].replicas=1", "spec.tasks has 2 items"),
        ("spec.task[1].replicas=4", "a Job has no field `spec.task`"),
        (
            "spec.tasks[0].template.spec.container[2].image=a",
            "a Job has no field `spec.tasks.template.spec.container`",
        ),
        ("spec.tasks[chief].replicas=1", "has no item named 'chief'"),
        (f"spec.tasks[{'9' * 5000}]=1", "has no item named"),
        ("metadata.name.first=1", "has no fields"),
        ("spec.queue=[a", "not valid YAML"),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_reason(given: str, message: str) -> None:
    with pytest.raises(vcjob.UserError) as refused:
        changed(given)
    assert message in refused.value.message and refused.value.hint


def test_the_example_in_a_hint_can_be_typed_into_any_shell() -> None:
    with pytest.raises(vcjob.UserError) as refused:
        changed("spec.queue")
    assert "--set 'spec.tasks[1].replicas=4'" in (refused.value.hint or "")


def test_a_list_that_no_job_has_is_answered_with_the_nearest_field() -> None:
    with pytest.raises(vcjob.UserError) as refused:
        changed("spec.task[1].replicas=4")
    assert refused.value.hint == "did you mean `spec.tasks`?"


@pytest.mark.parametrize(
    ("overrides", "path", "file"),
    [
        (Overrides(["spec.tasks[1].replicas=foo"]), "spec.tasks[1].replicas", "--set"),
        (Overrides(["spec.tasks[worker].replicas=foo"]), "spec.tasks[1].replicas", "--set"),
        (Overrides(["spec.foo.bar=1"]), "spec.foo", "--set"),
        (Overrides(["spec.minAvailable=9"]), "spec.minAvailable", "--set"),
        (Overrides(["spec.tasks[0].replicas="]), "spec.minAvailable", "FILE:4:8"),
        (Overrides(env={"=": "1"}), "spec.tasks[0].template.spec.containers[0].env[1].name", "--env"),
    ],
)
def test_a_problem_names_the_option_that_caused_it_and_not_a_line_of_the_file(
    overrides: Overrides, path: str, file: str, tmp_path: Path
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\n"
        "kind: Job\n"
        "metadata: {name: a}\n"
        "spec: {minAvailable: 2, tasks: [\n"
        "  {name: master, replicas: 1, template: {spec: {restartPolicy: Never, containers: [\n"
        "    {name: c, image: i, command: [x], env: [{name: A, value: a}]}]}}},\n"
        "  {name: worker, replicas: 1, template: {spec: {restartPolicy: Never, containers: [\n"
        "    {name: c, image: i, command: [x]}]}}}]}\n"
    )
    with pytest.raises(vcjob.InvalidJob) as refused:
        vcjob.load(job, overrides=overrides)
    problem = next(each for each in refused.value.problems if each.path == path)
    place = [problem.file, problem.line, problem.column]
    wanted = file.replace("FILE", str(job))
    assert ":".join(str(part) for part in place if part is not None) == wanted


def test_a_wrong_field_is_reported_as_if_it_were_in_the_file() -> None:
    with pytest.raises(vcjob.InvalidJob, match=r"spec.tasks\[1\].replcas"):
        vcjob.load(
            vcjob.pytorch_job("a", script="train.py"), overrides=Overrides(["spec.tasks[1].replcas=4"])
        )


def test_a_variable_replaces_one_of_the_same_name_in_every_container() -> None:
    job = vcjob.pytorch_job("a", script="train.py", env={"A": "1", "B": "2"})
    changed(job=job, env={"A": "9", "C": ""})
    for task in (0, 1):
        assert {each["name"]: each["value"] for each in container(job, task)["env"]} == {
            "B": "2",
            "A": "9",
            "C": "",
        }


def test_a_variable_is_set_in_init_containers_too() -> None:
    job = vcjob.pytorch_job("a", script="train.py", workers=0)
    job["spec"]["tasks"][0]["template"]["spec"]["initContainers"] = [{"name": "download", "image": "a"}]
    changed(job=job, env={"A": "1"}, arguments=["x"])
    (init,) = job["spec"]["tasks"][0]["template"]["spec"]["initContainers"]
    assert init == {"name": "download", "image": "a", "env": [{"name": "A", "value": "1"}]}


@pytest.mark.parametrize(
    "text", ["$(RANK)", "$$(RANK)", "$$x", "p$$w$(RANK)", "$", "$x", "a$", "$(", "costs $5"]
)
def test_programs_get_arguments_and_variables_unchanged(text: str) -> None:
    job = changed(env={"X": text}, arguments=[text])
    assert expand(container(job)["args"][0], {"RANK": "0"}) == text
    assert expand(container(job)["env"][0]["value"], {"RANK": "0"}) == text


def test_a_variable_without_a_value_has_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "yes")
    assert parse_env(["HERE", "A=b=c"]) == {"HERE": "yes", "A": "b=c"}
    with pytest.raises(vcjob.UserError, match="not set here"):
        parse_env(["NOT_SET_ANYWHERE"])


def test_arguments_go_to_the_first_container_of_the_tasks_with_ranks() -> None:
    job = vcjob.pytorch_job("a", command=["python", "train.py"], workers=1)
    job["spec"]["tasks"].append({**job["spec"]["tasks"][0], "name": "tensorboard"})
    job["spec"]["tasks"][2]["template"] = {"spec": {"containers": [{"name": "t", "image": "t"}]}}
    job["spec"]["tasks"][0]["template"]["spec"]["containers"].append({"name": "sidecar", "image": "s"})
    changed(job=job, arguments=["--epochs", "3"])
    assert container(job)["args"] == container(job, 1)["args"] == ["--epochs", "3"]
    assert "args" not in container(job, 0, 1) and "args" not in container(job, 2)


def test_arguments_reach_a_shell_line_that_uses_them_and_no_other() -> None:
    uses = vcjob.pytorch_job("a", command=["sh", "-c", 'exec python train.py "$@"'], workers=0)
    assert container(changed(job=uses, arguments=["--x"]))["args"] == ["sh", "--x"]
    ignores = vcjob.pytorch_job("a", command=["bash", "-c", "python train.py"], workers=0)
    with pytest.raises(vcjob.UserError, match="runs a shell line") as refused:
        changed(job=ignores, arguments=["--x"])
    assert "command: [python, train.py]" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "line", ["echo $RANK", "cd /data && python train.py", "A=1 python train.py", "python *.py", "echo 'open"]
)
def test_a_line_that_only_a_shell_can_run_is_not_shown_without_it(line: str) -> None:
    job = vcjob.pytorch_job("a", command=["sh", "-c", line], workers=0)
    with pytest.raises(vcjob.UserError) as refused:
        changed(job=job, arguments=["--x"])
    assert refused.value.hint == 'add "$@" where the arguments belong'


def test_only_the_job_that_is_named_is_changed() -> None:
    job = vcjob.pytorch_job("a", script="train.py")
    Overrides(["spec.queue=q"], job="b").apply(job)
    assert "queue" not in job["spec"]
