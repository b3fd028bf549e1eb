"""GPUs of this machine: each pod gets its own, and jobs wait for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, container, eventually, job, task
from vcjob.local.machine import gpus
from vcjob.sdk.local.handle import LocalHandle
from vcjob.sdk.local.start import check_gpus


def test_more_gpus_than_there_are_is_refused_before_anything_starts(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(tmp_path, monkeypatch, 2)
    greedy = container("true", resources={"limits": {"nvidia.com/gpu": 3}})
    result = verb("run", file(job(task("a", greedy))))
    assert result.returncode == 3
    assert "needs 3 GPUs at once, and this machine has 2" in result.stderr
    assert vcjob.jobs() == []


@pytest.mark.parametrize(
    ("count", "message", "hint"),
    [
        (0, "this machine has no GPU", "use --nproc cpu or a number"),
        (2, "its pods request none", "add --gpus N"),
    ],
)
def test_a_process_for_each_gpu_is_refused_where_pods_see_no_gpu(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    message: str,
    hint: str,
) -> None:
    fake_gpus(tmp_path, monkeypatch, count)
    (tmp_path / "train.py").write_text("")
    result = verb("run", "--nproc", "gpu", "train.py", cwd=tmp_path)
    assert result.returncode == 3
    error, advice = result.stderr.splitlines()
    assert message in error and hint in advice
    assert vcjob.jobs() == []


def test_a_process_for_each_gpu_is_allowed_where_pods_may_see_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(tmp_path, monkeypatch, 2)
    environment = dict(os.environ)
    script = tmp_path / "train.py"
    script.write_text("")
    check_gpus(vcjob.load(vcjob.script_job(script, nproc="gpu", gpus=2)).job, environment)
    chosen = vcjob.script_job(script, nproc="gpu")
    check_gpus(vcjob.load(chosen).job, {**environment, "CUDA_VISIBLE_DEVICES": "0"})
    with_variable = vcjob.script_job(script, nproc="gpu", env={"CUDA_VISIBLE_DEVICES": "0"})
    check_gpus(vcjob.load(with_variable).job, environment)
    monkeypatch.setattr(gpus, "device_files", lambda: ["/dev/kfd"])
    check_gpus(vcjob.load(chosen).job, {**environment, "PATH": "/bin"})  # a GPU that nvidia-smi does not list


@pytest.mark.slow
def test_gpus_are_given_to_one_pod_each_and_a_second_job_waits_for_them(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fake_gpus(tmp_path, monkeypatch, 2)
    one_each = container(
        "echo $CUDA_VISIBLE_DEVICES; while [ ! -e go ]; do sleep 0.02; done",
        resources={"limits": {"nvidia.com/gpu": 1}},
    )
    first = vcjob.run(job(task("a", one_each, replicas=2), name="first"), cwd=tmp_path)
    eventually(lambda: first.phase == "Running")
    second = vcjob.run(job(task("a", one_each), name="second"), cwd=tmp_path)
    assert isinstance(second, LocalHandle)
    eventually(lambda: second.status().state.reason == "InsufficientGPUs")
    assert second.phase == "Pending" and second.pods() == []
    second.suspend()
    eventually(lambda: second.phase == "Aborted" and not second.supervised)
    before = len(second.events())
    second.resume()  # its events are recorded although the pods of the same decision have no GPUs yet
    eventually(lambda: second.status().state.reason == "InsufficientGPUs")
    assert "ResumeJob" in second.events()[before]["message"]
    (tmp_path / "go").touch()
    assert first.wait(PATIENCE) == "Completed" and second.wait(PATIENCE) == "Completed"
    assert sorted(line.text for line in first.logs()) == sorted(names)


def test_pods_that_ask_for_no_gpu_see_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(tmp_path, monkeypatch, 1)
    handle = vcjob.run(job(task("a", "echo [${CUDA_VISIBLE_DEVICES-unset}]")), cwd=tmp_path)
    handle.wait(PATIENCE)
    assert [line.text for line in handle.logs()] == ["[]"]
    assert any("nvidia.com/gpu" in note for note in handle.notes())


def fake_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> list[str]:
    """A machine with GPUs, as far as `nvidia-smi -L` tells."""
    names = [f"GPU-{os.getpid()}-{folder.name}-{number}" for number in range(count)]
    lines = "".join(f"echo 'GPU {n}: NVIDIA Test (UUID: {name})'\n" for n, name in enumerate(names))
    tools = folder / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return names
