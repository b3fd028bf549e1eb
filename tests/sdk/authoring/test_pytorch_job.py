"""A Job from a few Python arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vcjob


def pod(job: dict[str, Any], task: int = 0) -> dict[str, Any]:
    spec: dict[str, Any] = job["spec"]["tasks"][task]["template"]["spec"]
    return spec


def container(job: dict[str, Any], task: int = 0) -> dict[str, Any]:
    first: dict[str, Any] = pod(job, task)["containers"][0]
    return first


def test_the_smallest_job_is_valid_and_has_a_master_and_a_worker() -> None:
    job = vcjob.pytorch_job("hello", script="train.py")
    assert vcjob.validate(job) == []
    assert job == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "hello"},
        "spec": {
            "plugins": {"pytorch": []},
            "tasks": [
                {
                    "name": name,
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [
                                {
                                    "name": "pytorch",
                                    "image": "pytorch/pytorch:latest",
                                    "command": ["python", "train.py"],
                                }
                            ],
                        }
                    },
                }
                for name in ("master", "worker")
            ],
        },
    }


def test_a_job_with_everything_is_valid() -> None:
    job = vcjob.pytorch_job(
        "all",
        command=["torchrun", "train.py"],
        args=["--epochs", "3"],
        image="img:1",
        workers=7,
        gpus=8,
        cpus=16,
        memory="64Gi",
        shared_memory="8Gi",
        nproc_per_node="auto",
        env={"LEVEL": "INFO", "DEBUG": True, "SIZE": 4},
        wait_for_master=60,
        port=29500,
        restarts=2,
        working_dir="/app",
        volumes={"/data": "datasets"},
        namespace="team",
        queue="gpu",
        priority_class="high",
        labels={"a": "b"},
        annotations={"c": "d"},
    )
    assert [p for p in vcjob.validate(job) if p.severity == "error"] == []
    assert job["metadata"] == {
        "name": "all",
        "namespace": "team",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
    }
    spec = job["spec"]
    assert spec["plugins"] == {
        "pytorch": [
            "--port=29500",
            "--wait-master-enabled=true",
            "--wait-master-timeout=60",
            "--nproc-per-node=auto",
        ]
    }
    assert (spec["queue"], spec["priorityClassName"], spec["maxRetry"]) == ("gpu", "high", 3)
    assert spec["policies"] == [{"event": "PodFailed", "action": "RestartJob"}]
    assert spec["volumes"] == [{"mountPath": "/data", "volumeClaimName": "datasets"}]
    assert [(task["name"], task["replicas"]) for task in spec["tasks"]] == [("master", 1), ("worker", 7)]
    assert (
        container(job, 1)
        == container(job, 0)
        == {
            "name": "pytorch",
            "image": "img:1",
            "command": ["torchrun", "train.py", "--epochs", "3"],
            "workingDir": "/app",
            "resources": {"requests": {"cpu": "16", "memory": "64Gi"}, "limits": {"nvidia.com/gpu": 8}},
            "env": [
                {"name": "LEVEL", "value": "INFO"},
                {"name": "DEBUG", "value": "true"},
                {"name": "SIZE", "value": "4"},
            ],
            "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
        }
    )
    assert pod(job)["volumes"] == [
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    ]


@pytest.mark.parametrize(
    ("arguments", "command", "args"),
    [
        ({"script": Path("a b.py"), "args": ["-x"]}, ["python", "a b.py", "-x"], None),
        ({"script": "a.py", "nproc_per_node": 2}, ["torchrun", "a.py"], None),
        ({"command": "torchrun 'a b.py' -x"}, ["torchrun", "a b.py", "-x"], None),
        ({"command": ("python", "-V")}, ["python", "-V"], None),
        ({"args": ["--epochs=3"]}, None, ["--epochs=3"]),
        ({}, None, None),
    ],
)
def test_what_runs_is_a_script_a_command_or_the_images_own(
    arguments: dict[str, Any], command: list[str] | None, args: list[str] | None
) -> None:
    found = container(vcjob.pytorch_job("a", **arguments))
    assert (found.get("command"), found.get("args")) == (command, args)


def test_script_and_command_exclude_each_other() -> None:
    with pytest.raises(vcjob.UserError, match="both script and command are given"):
        vcjob.pytorch_job("a", script="a.py", command="b")


def test_a_command_with_an_open_quote_is_refused() -> None:
    with pytest.raises(vcjob.UserError, match="command: a quote is not closed in `echo 'x`"):
        vcjob.pytorch_job("hello", command="echo 'x")
    with pytest.raises(vcjob.UserError, match="command: nothing follows the last backslash"):
        vcjob.pytorch_job("hello", command="echo \\")


def test_a_job_without_workers_is_the_master_alone() -> None:
    job = vcjob.pytorch_job("a", script="a.py", workers=0)
    assert [task["name"] for task in job["spec"]["tasks"]] == ["master"]
    assert vcjob.validate(job) == []
    with pytest.raises(vcjob.UserError, match="workers is -1"):
        vcjob.pytorch_job("a", workers=-1)


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (False, []),
        (True, ["--wait-master-enabled=true"]),
        (5, ["--wait-master-enabled=true", "--wait-master-timeout=5"]),
        (1, ["--wait-master-enabled=true", "--wait-master-timeout=1"]),
        (0, ["--wait-master-enabled=true", "--wait-master-timeout=0"]),
    ],
)
def test_waiting_for_the_master_is_a_switch_or_a_number_of_seconds(
    wait: bool | int, expected: list[str]
) -> None:
    assert vcjob.pytorch_job("a", wait_for_master=wait)["spec"]["plugins"]["pytorch"] == expected


def test_tasks_share_no_part_with_each_other() -> None:
    job = vcjob.pytorch_job("a", script="a.py")
    container(job, 0)["image"] = "changed"
    assert container(job, 1)["image"] != "changed"
