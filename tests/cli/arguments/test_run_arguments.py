"""How the command line of `vcjob run` is divided between vcjob and the program; nothing is started here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import GUIDE, Vcjob


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path / "train.py"


def shown(vcjob: Vcjob, *words: object) -> dict[str, Any]:
    result = vcjob("run", "--dry-run", *words)
    assert (result.code, result.err) == (0, "")
    job: dict[str, Any] = yaml.safe_load(result.out)
    return job


def program(job: dict[str, Any]) -> list[str]:
    container = job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    words: list[str] = [*container.get("command", []), *container.get("args", [])]
    return words[1:]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["train.py", "--epochs", "3", "-d"], ["train.py", "--epochs", "3", "-d"]),
        (["train.py", "--", "--epochs", "3"], ["train.py", "--epochs", "3"]),
        (["--", "train.py", "a", "--", "b"], ["train.py", "a", "--", "b"]),
        (["-m", "package.train", "--epochs", "3"], ["-m", "package.train", "--epochs", "3"]),
        (["-m", "--name", "x", "package", "-h"], ["-m", "package", "-h"]),
    ],
)
def test_everything_after_a_script_or_module_belongs_to_it(
    vcjob: Vcjob, script: Path, words: list[str], command: list[str]
) -> None:
    job = shown(vcjob, *words)
    assert program(job) == command
    assert len(job["spec"]["tasks"]) == 1


@pytest.mark.parametrize(
    ("words", "passed"),
    [
        (["--workers", "2", "--lr=1"], "`--workers 2` was"),
        (["--on=cluster", "x", "--max_restarts", "1"], "`--on=cluster`, `--max_restarts 1` were"),
        (["--warm", "x"], "`--warm` was"),
    ],
)
def test_options_of_vcjob_after_a_script_are_passed_to_it_with_a_note(
    vcjob: Vcjob, script: Path, words: list[str], passed: str
) -> None:
    result = vcjob("run", "--dry-run", "train.py", *words)
    assert result.code == 0
    assert program(yaml.safe_load(result.out)) == ["train.py", *words]
    assert result.err == f"vcjob: note: {passed} passed to train.py; options of vcjob go before the script\n"
    for quiet in (["--", *words], ["--lr", "1", "--", *words], ["--log-dir", "x"]):
        assert vcjob("run", "--dry-run", "train.py", *quiet).err == ""


@pytest.mark.parametrize("words", [["--epochs", "3"], ["-lr", "3"], ["--on", "local", "--epochs=3"]])
def test_an_unknown_option_after_a_job_file_is_answered_with_two_dashes(
    vcjob: Vcjob, words: list[str]
) -> None:
    result = vcjob("run", GUIDE, *words)
    name = words[-2] if words[-1] == "3" else "--epochs"
    assert result.code == 2
    assert result.err == (
        f"error: No such option '{name}'.\n"
        f"hint: arguments for the program follow `--`: `vcjob run {GUIDE} -- {name} 3`\n"
    )


@pytest.mark.parametrize(
    ("flags", "workers", "plugin"),
    [
        (["--nnodes", "4"], 3, []),
        (["--nnodes=1", "--standalone"], 0, []),
        (["--nproc-per-node=2"], 0, ["--nproc-per-node=2"]),
        (["--nproc_per_node", "gpu", "--standalone"], 0, ["--nproc-per-node=gpu"]),
    ],
)
def test_the_flags_of_torchrun_work(
    vcjob: Vcjob, script: Path, flags: list[str], workers: int, plugin: list[str]
) -> None:
    job = shown(vcjob, *flags, "train.py")
    assert sum(task["replicas"] for task in job["spec"]["tasks"]) == workers + 1
    assert job["spec"]["plugins"]["pytorch"] == plugin


def test_max_restarts_restarts_the_whole_job(vcjob: Vcjob, script: Path) -> None:
    spec = shown(vcjob, "--max-restarts", 2, "train.py")["spec"]
    assert (spec["maxRetry"], spec["policies"]) == (3, [{"event": "PodFailed", "action": "RestartJob"}])


@pytest.mark.parametrize(
    ("words", "message", "hint"),
    [
        (["--rdzv-backend=c10d", "train.py"], "--rdzv-backend is an option of torchrun", "no rendezvous"),
        (["--node_rank", "0", "train.py"], "--node-rank is an option of torchrun", "--workers"),
        (["-r", "3", "train.py"], "--redirects is an option of torchrun", "vcjob logs JOB --rank N"),
        (
            [
                "--standalone",
                "--rdzv-backend=c10d",
                "--rdzv_endpoint",
                "localhost:0",
                "--node-rank=0",
                "train.py",
            ],
            "--node-rank, --rdzv-backend, --rdzv-endpoint are options of torchrun",
            "; leave out --rdzv-backend, --rdzv-endpoint: the pytorch plugin",
        ),
        (
            [
                "torchrun",
                "--nproc_per_node=2",
                "--master_port",
                "29500",
                "-t",
                "3",
                "train.py",
                "--role",
                "x",
            ],
            "takes the script",
            "`vcjob run --nproc_per_node=2 train.py --role x`",
        ),
        (["torchrun", "--rdzv-id=1", "-m", "a.b"], "takes the script", "`vcjob run -m a.b`"),
        (["--no-python", "train.py"], "--no-python is an option of torchrun", "vcjob init"),
        (["--nnodes=1:4", "train.py"], "does not change while it runs", "--workers"),
        (["--nnodes=2", "--workers=1", "train.py"], "mean the same", "--workers N-1"),
        (["--standalone", "--workers=1", "train.py"], "means one pod", "leave one out"),
        (["torchrun"], "takes the script, and starts torchrun", "`vcjob run --nproc 4 train.py`"),
        (
            ["torchrun", "--nnodes", "2", "--nproc_per_node=4", "train.py", "--lr", "1"],
            "takes the script",
            "`vcjob run --nnodes 2 --nproc_per_node=4 train.py --lr 1`",
        ),
        (["--detach", "python", "-m", "a.b"], "takes the script", "`vcjob run --detach -m a.b`"),
        (["python3", "-u", "train.py", "x y"], "takes the script", "`vcjob run train.py 'x y'`"),
        (["accelerate", "launch", "--multi_gpu", "train.py"], "without accelerate", "`vcjob run train.py`"),
        (["--image", "a=b", "train.py"], "runs in one image", "without a command"),
        (["--on", "cluster", "train.py"], "no image is named", "--image IMAGE"),
        (["--set", "spec.tasks[3].replicas=1", "train.py"], "has 1 item", "start with 0"),
        (["-f", "job.yaml"], "No such option '-f'", "give the file without `-f`: `vcjob run job.yaml`"),
        (["--filename=a b.yaml"], "No such option '--filename'", "`vcjob run 'a b.yaml'`"),
        (["–-workers", "2", "train.py"], "'–-workers' begins with a typographic dash", "write `--workers`"),
        (["—workers=2", "train.py"], "begins with a typographic dash", "write `--workers=2`"),
        (["--replicas", "2", "train.py"], "No such option '--replicas'", "did you mean `--workers`?"),
        (["--redirect", "2", "train.py"], "No such option '--redirect'", "arguments of a script follow it"),
        (["--epochs", "3", "train.py"], "No such option '--epochs'", "`vcjob run train.py --epochs 3`"),
        (["-workers", "2", "train.py"], "No such option '-workers'", "did you mean `--workers`?"),
        (["-nproc", "2", "train.py"], "No such option '-nproc'", "did you mean `--nproc`?"),
        (["--workers", "two", "train.py"], "'two' is not a whole number", "vcjob run --help"),
        (["--workers", "-1", "train.py"], "it is -1, and it must be at least 0", "vcjob run --help"),
        (["2", "train.py"], "'2' is not a file", "`vcjob run --workers 2 train.py`"),
        (["bash", "train.sh"], "'bash' is a command", "`command: [bash, train.sh]`"),
        (["train.sh", "--lr", "3"], "is a shell script", "`command: [bash, train.sh]`"),
        (["train.sh", "3"], "is a shell script", "`command: [bash, train.sh]`"),
        (["https://example.com/train.py"], "is an address, not a file", "download it first"),
    ],
)
def test_what_does_not_work_is_answered(
    vcjob: Vcjob, script: Path, words: list[str], message: str, hint: str
) -> None:
    script.with_suffix(".sh").write_text("python train.py\n")
    result = vcjob("run", *words)
    assert result.code == 2
    assert message in result.err.splitlines()[0] and hint in result.err.splitlines()[1]


def test_options_may_follow_a_job_file_and_arguments_follow_two_dashes(vcjob: Vcjob) -> None:
    job = shown(vcjob, GUIDE, "--set", "spec.tasks[1].replicas=4", "-e", "A=1", "--", "--epochs", "3")
    master, worker = job["spec"]["tasks"]
    assert worker["replicas"] == 4
    for task in (master, worker):
        container = task["template"]["spec"]["containers"][0]
        assert container["args"] == ["--epochs", "3"]
        assert container["env"] == [{"name": "A", "value": "1"}]


def test_a_job_file_may_follow_two_dashes_too(vcjob: Vcjob) -> None:
    assert (
        program(shown(vcjob, "--", GUIDE, "--", "--epochs"))[-1:]
        == program(shown(vcjob, GUIDE, "--", "--epochs"))[-1:]
    )


def test_what_is_no_job_file_is_not_called_one_because_of_an_option_for_scripts(
    vcjob: Vcjob, tmp_path: Path
) -> None:
    shell = tmp_path / "train.sh"
    assert "train.sh: no such file" in vcjob("run", "--workers", 2, shell).err
    shell.write_text("python train.py\n")
    result = vcjob("run", "--workers", 2, shell)
    assert result.code == 2 and "is a shell script, not a Job file" in result.err


def test_an_option_for_scripts_is_refused_for_a_job_file(vcjob: Vcjob) -> None:
    result = vcjob("run", "--workers", 3, GUIDE)
    assert result.code == 2
    assert (
        "--workers is for a Python script" in result.err and "--set 'spec.tasks[1].replicas=4'" in result.err
    )


def test_a_second_file_is_refused(vcjob: Vcjob) -> None:
    result = vcjob("run", GUIDE, "other.yaml")
    assert result.code == 2 and "unexpected argument 'other.yaml'" in result.err


def test_a_script_where_a_job_file_belongs_is_answered(vcjob: Vcjob, script: Path) -> None:
    result = vcjob("validate", "train.py")
    assert result.code == 2
    assert "is a Python script, not a Job file" in result.out + result.err
    assert "vcjob run train.py" in result.out + result.err


def test_the_same_script_goes_to_a_cluster_with_an_image(vcjob: Vcjob, script: Path) -> None:
    here = shown(vcjob, "--workers=1", "--image=registry.example/train:1", "train.py", "x")
    there = shown(vcjob, "--on=cluster", "--workers=1", "--image=registry.example/train:1", "train.py", "x")
    assert here == there
