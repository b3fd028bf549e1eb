"""The Job of a script or a module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vcjob
from vcjob.local.pod.environment import expand


@pytest.fixture(autouse=True)
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return "train.py"


def container(job: dict[str, Any]) -> dict[str, Any]:
    first: dict[str, Any] = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    return first


def cluster_job(**options: Any) -> dict[str, Any]:
    """As for a cluster, where nothing depends on this machine."""
    return vcjob.script_job("train.py", image="registry.example/train:1", on="cluster", **options)


def test_a_script_is_one_rank_by_default_and_a_valid_job() -> None:
    job = vcjob.script_job("train.py", args=["--epochs", "3"])
    assert vcjob.validate(job) == []
    assert [(task["name"], task["replicas"]) for task in job["spec"]["tasks"]] == [("master", 1)]
    assert container(job)["command"][1:] == ["train.py", "--epochs", "3"]


def test_a_file_in_place_of_a_module_is_refused(script: str) -> None:
    with pytest.raises(vcjob.UserError, match=r"train\.py is a file") as refused:
        vcjob.script_job(module=script)
    assert refused.value.hint == "leave out -m: `vcjob run train.py`"
    assert vcjob.script_job(module="package.py")["metadata"]["name"] == "py"


def test_the_script_gets_its_arguments_and_variables_unchanged() -> None:
    texts = ["$(RANK)", "$$(RANK)", "$$x", "$x", "$"]
    job = cluster_job(args=texts, env={"A": "p$$w$(RANK)", "B": True})
    assert [expand(word, {"RANK": "0"}) for word in container(job)["command"][2:]] == texts
    assert container(job)["command"][-2:] == ["$x", "$"]  # readable where Kubernetes changes nothing
    assert expand(container(job)["env"][0]["value"], {"RANK": "0"}) == "p$$w$(RANK)"
    assert container(job)["env"][1]["value"] == "true"


def test_one_text_in_place_of_a_list_of_arguments_is_refused() -> None:
    with pytest.raises(vcjob.UserError, match="args is one text") as refused:
        cluster_job(args="--lr 3")
    assert refused.value.hint == "give a list of words, such as ['--lr', '3']"
    with pytest.raises(vcjob.UserError, match="args is one text"):
        vcjob.pytorch_job("a", args="abc")


@pytest.mark.parametrize(
    ("options", "command", "plugin"),
    [
        ({}, ["python", "train.py"], []),
        ({"nproc": 4}, ["torchrun", "train.py"], ["--nproc-per-node=4"]),
        ({"nproc": "gpu"}, ["torchrun", "train.py"], ["--nproc-per-node=gpu"]),
        ({"gpus": 1}, ["python", "train.py"], []),
        ({"gpus": 8}, ["torchrun", "train.py"], ["--nproc-per-node=8"]),
        ({"gpus": 8, "nproc": 1}, ["torchrun", "train.py"], ["--nproc-per-node=1"]),
    ],
)
def test_torchrun_starts_several_processes_in_a_pod(
    options: dict[str, Any], command: list[str], plugin: list[str]
) -> None:
    job = cluster_job(**options)
    assert vcjob.validate(job) == []
    assert container(job)["command"] == command
    assert job["spec"]["plugins"] == {"pytorch": plugin}


def test_a_module_runs_as_with_python_m() -> None:
    job = vcjob.script_job(module="package.train", on="cluster", image="a", nproc=2)
    assert job["metadata"]["name"] == "train"
    assert container(job)["command"] == ["torchrun", "-m", "package.train"]


def test_where_path_has_no_python_the_one_of_vcjob_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    command = container(vcjob.script_job("train.py", nproc=2))["command"]
    assert command[1:] == ["-m", "torch.distributed.run", "train.py"] and Path(command[0]).is_absolute()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nproc": 0}, "nproc is '0'"),
        ({"nproc": "all"}, "nproc is 'all'"),
        ({"gpus": -1}, "gpus is -1"),
        ({"workers": -1}, "workers is -1"),
        ({"restarts": -1}, "restarts is -1"),
    ],
)
def test_a_number_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(vcjob.UserError, match=message):
        cluster_job(**options)


def test_a_script_that_does_not_exist_here_is_refused_here_and_may_be_in_the_image() -> None:
    with pytest.raises(vcjob.SourceError, match=r"other.py: no such file"):
        vcjob.script_job("other.py")
    assert container(vcjob.script_job("other.py", on="cluster", image="a"))["image"] == "a"
    with pytest.raises(vcjob.UserError, match="no image is named"):
        vcjob.script_job("other.py", on="cluster")


@pytest.mark.parametrize(
    ("program", "name"),
    [("a/Fine_Tune.py", "fine-tune"), ("3d.py", "job-3d"), ("--.py", "job"), ("x" * 90 + ".py", "x" * 40)],
)
def test_the_name_of_the_job_is_valid_whatever_the_script_is_called(program: str, name: str) -> None:
    job = vcjob.script_job(program, on="cluster", image="a")
    assert job["metadata"]["name"] == name
    assert vcjob.validate(job) == []
