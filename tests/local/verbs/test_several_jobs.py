"""A file with several Jobs: all of them, or one by its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, job, task


def two_jobs(folder: Path) -> str:
    path = folder / "two.yaml"
    documents = [job(task("a", f"echo from {name}"), name=name) for name in ("one", "two")]
    path.write_text("---\n".join(vcjob.to_yaml(document) for document in documents))
    return str(path)


def test_all_jobs_of_a_file_run_at_once(tmp_path: Path) -> None:
    path = two_jobs(tmp_path)
    assert verb("validate", path).returncode == 0
    result = verb("run", path)
    assert result.returncode == 0, result.stderr
    assert "one [- a-0] from one\n" in result.stdout and "two [- a-0] from two\n" in result.stdout
    assert "one: Completed" in result.stdout and "two: Completed" in result.stdout
    assert [handle.name for handle in vcjob.jobs()] == ["one", "two"]
    listed = json.loads(verb("run", path, "-o", "json").stdout)
    assert [item["status"]["state"]["phase"] for item in listed["items"]] == ["Completed", "Completed"]


def test_one_job_of_a_file_runs_by_its_name(tmp_path: Path) -> None:
    path = two_jobs(tmp_path)
    result = verb("run", path, "--job", "two")
    assert result.returncode == 0 and "[- a-0] from two" in result.stdout
    assert [handle.name for handle in vcjob.jobs()] == ["two"]
    unknown = verb("run", path, "--job", "three")
    assert unknown.returncode == 2
    assert "no Job 'three'" in unknown.stderr and "its Jobs are: one, two" in unknown.stderr
    assert vcjob.run(path, job="one").wait(PATIENCE) == "Completed"
    with pytest.raises(vcjob.UserError, match="there are 2 Jobs"):
        vcjob.run(path)


def test_one_failed_job_of_a_file_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    documents = [
        job(task("a", command), name=name) for name, command in (("bad", "exit 3"), ("good", "true"))
    ]
    path.write_text("---\n".join(vcjob.to_yaml(document) for document in documents))
    result = verb("run", str(path))
    assert result.returncode == 1
    assert "bad: Failed" in result.stdout and "good: Completed" in result.stdout
