"""`vcjob doctor` without a cluster, and what it says of this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vcjob.cli.main import main
from vcjob.local.jobs import doctor


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_missing_cluster_is_reported_and_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "This machine" in said
    assert "missing  cluster: there is no kubeconfig" in said
    assert "hint: set KUBECONFIG" in said


def test_it_is_a_failure_with_on_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--on", "cluster", "-o", "json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["cluster"]
    assert found["cluster"][0]["standing"] == "missing"


def test_a_home_that_cannot_be_written_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VCJOB_HOME", "/proc/nowhere/vcjob")
    assert main(["doctor", "--on", "local"]) == 3
    assert "/proc/nowhere/vcjob cannot be used" in capsys.readouterr().out


def test_every_topic_of_the_machine_is_checked() -> None:
    assert [check.topic for check in doctor.examine({"PATH": ""})] == [
        "machine",
        "jobs",
        "python",
        "GPUs",
        "limits",
    ]


def test_gpus_that_may_not_be_used_are_reported(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 9\n")
    tool.chmod(0o755)
    by_topic = {check.topic: check for check in doctor.examine({"PATH": str(tmp_path)})}
    assert by_topic["GPUs"].standing == "missing"
    tool.write_text('#!/bin/sh\necho "GPU 0: H200 (UUID: GPU-1)"\n')
    by_topic = {check.topic: check for check in doctor.examine({"PATH": f"{tmp_path}:/bin"})}
    assert by_topic["GPUs"].message == "1 can be used"
