"""`vcjob init`: a Job file that is valid, that runs, and that explains itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

import vcjob as sdk
from tests.cli.conftest import Vcjob


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("print('hello')\n")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [[], ["train.py"], ["train.py", "--epochs", "3"], ["--workers", "2", "train.py"], ["--max-restarts=2", "train.py"],
     ["--gpus", "2", "--name", "other", "train.py"], ["-m", "package.train"], ["train.py", "two\nlines: # of\n text"]],
    ids=" ".join,
)  # fmt: skip
def test_the_file_is_valid_and_is_the_job_that_run_would_start(
    vcjob: Vcjob, folder: Path, words: list[str]
) -> None:
    assert vcjob("init", *words) == (0, "job.yaml written; run it with `vcjob run job.yaml`\n", "")
    text = (folder / "job.yaml").read_text()
    assert [problem for problem in sdk.validate("job.yaml") if problem.severity == "error"] == []
    assert text.count("# ") > 6
    if words:
        assert yaml.safe_load(vcjob("run", "--dry-run", *words).out) == yaml.safe_load(text)
    assert ("add a task `worker`" in text) == ("name: worker" not in text)


@pytest.mark.parametrize("file", ["job.yaml", "a.yaml", "the-job-of-this-experiment.yaml"])
def test_the_meanings_of_the_commands_are_in_one_column(vcjob: Vcjob, folder: Path, file: str) -> None:
    vcjob("init", "-f", file, "train.py")
    commands = (folder / file).read_text().splitlines()[2:6]
    columns = {command.rindex("   ") for command in commands}
    assert len(columns) == 1, commands


def test_what_the_comments_offer_is_valid(vcjob: Vcjob, folder: Path) -> None:
    vcjob("init", "train.py")
    text = (folder / "job.yaml").read_text()
    offered, number = re.subn(r"# (policies: \[|maxRetry: |resources: \{|env: \[)", r"\1", text)
    assert number == 4
    assert sdk.validate(offered) == []


def test_an_existing_file_is_replaced_with_force_only(vcjob: Vcjob, folder: Path) -> None:
    (folder / "job.yaml").write_text("mine\n")
    refused = vcjob("init", "train.py")
    assert refused.code == 2 and "job.yaml already exists" in refused.err and "--force" in refused.err
    assert (folder / "job.yaml").read_text() == "mine\n"
    assert vcjob("init", "--force", "train.py").code == 0
    assert "kind: Job" in (folder / "job.yaml").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["job.yaml", "train.py"]


def test_a_dash_prints_the_file(vcjob: Vcjob, folder: Path) -> None:
    assert "kind: Job" in vcjob("init", "-f", "-", "train.py").out
    assert not (folder / "job.yaml").exists()


def test_a_symbolic_link_is_kept_and_its_file_is_replaced(vcjob: Vcjob, folder: Path) -> None:
    (folder / "link.yaml").symlink_to("target.yaml")
    (folder / "target.yaml").write_text("mine\n")
    assert vcjob("init", "-f", "link.yaml", "--force", "train.py").code == 0
    assert (folder / "link.yaml").is_symlink() and "kind: Job" in (folder / "target.yaml").read_text()


def test_the_commands_that_it_names_can_be_copied(vcjob: Vcjob, folder: Path) -> None:
    result = vcjob("init", "-f", "my job.yaml", "train.py")
    assert result.out == "my job.yaml written; run it with `vcjob run 'my job.yaml'`\n"
    assert "#   vcjob run 'my job.yaml' --on cluster " in (folder / "my job.yaml").read_text()
    assert vcjob("init", "-f", "two\nlines.yaml", "train.py").code == 0
    assert [each for each in sdk.validate(folder / "two\nlines.yaml") if each.severity == "error"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["other.py"], "other.py: no such file"),
        (["train.sh"], "train.sh is not a Python script"),
        (["--gpus", "2"], "name the script"),
        (["-f", "no/folder/job.yaml", "train.py"], "cannot be written"),
        (["-f", ".", "--force", "train.py"], ". is a folder"),
    ],
)
def test_what_cannot_be_written_is_refused(vcjob: Vcjob, words: list[str], message: str) -> None:
    result = vcjob("init", *words)
    assert result.code == 2 and message in result.err and "hint: " in result.err
