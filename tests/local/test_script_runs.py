"""A Python script without a Job file, run on this machine."""

from __future__ import annotations

from pathlib import Path

import yaml

import vcjob
from tests.command_line import verb
from tests.local.conftest import texts

PROGRAM = "import os, sys\nprint(os.environ['RANK'], os.environ['WORLD_SIZE'], os.environ['COLOUR'], *sys.argv[1:])\n"


def test_a_script_runs_as_several_ranks_and_its_job_is_stored(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    words = ("--workers", "1", "--env", "COLOUR=$(RANK)", "train.py", "--epochs", "$(RANK)", "$$x")
    result = verb("run", *words, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    handle = vcjob.find("train")
    assert sorted(texts(handle)) == [f"{rank} 2 $(RANK) --epochs $(RANK) $$x" for rank in (0, 1)]
    stored = yaml.safe_load(verb("status", "train", "-o", "yaml").stdout)
    assert [task["replicas"] for task in stored["spec"]["tasks"]] == [1, 1]


def test_a_job_file_runs_with_changes_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    job = vcjob.pytorch_job("changed", script="train.py", workers=1)
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job))
    words = (
        "job.yaml",
        "--set",
        "spec.tasks[worker].replicas=2",
        "-e",
        "COLOUR=blue",
        "--",
        "--lr",
        "$$(RANK)",
    )
    assert verb("run", *words, cwd=tmp_path).returncode == 0
    assert sorted(texts(vcjob.find("changed"))) == [f"{rank} 3 blue --lr $$(RANK)" for rank in range(3)]
