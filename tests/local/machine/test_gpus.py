"""GPUs: which of them the caller may use, and which pod gets which."""

from __future__ import annotations

import os

import pytest

from tests.local.conftest import container, job, task
from vcjob.local.machine import gpus
from vcjob.spec.job import Job

LISTING = """GPU 0: NVIDIA A (UUID: GPU-aaa)
GPU 1: NVIDIA B (UUID: GPU-bbb)
  MIG 1g.5gb     Device  0: (UUID: MIG-b0)
  MIG 1g.5gb     Device  1: (UUID: MIG-b1)
GPU 2: NVIDIA C (UUID: GPU-ccc)
"""


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["GPU-aaa", "MIG-b0", "MIG-b1", "GPU-ccc"]),
        ("", []),
        ("-1", []),
        ("3,0", ["GPU-ccc", "GPU-aaa"]),
        ("0,9,1", ["GPU-aaa"]),
        ("GPU-c", ["GPU-ccc"]),
    ],
)
def test_the_caller_s_choice_of_gpus_is_kept(visible: str | None, expected: list[str]) -> None:
    assert gpus._allowed(gpus._devices(LISTING), visible) == expected


def test_a_gang_gets_all_its_gpus_or_none(request: pytest.FixtureRequest) -> None:
    devices = [f"GPU-{os.getpid()}-{n}" for n in range(3)]
    one, other = gpus.GpuPool(devices), gpus.GpuPool(devices)
    assert one.take({"a": 1, "b": 1})
    assert not other.take({"c": 2})
    assert other.take({"d": 1}) and not set(other.of("d")) & set(one.of("a") + one.of("b"))
    assert not one.take({"e": 1})
    one.give_back("a")
    assert one.take({"e": 1}) and one.of("e")


def test_gpus_of_a_pod_and_of_a_job() -> None:
    two = container("true", resources={"limits": {"nvidia.com/gpu": "2"}})
    spec = {"containers": [two, container("true")], "initContainers": [two]}
    assert gpus.gpus_of(spec) == 2
    later = task("b", two, replicas=3, dependsOn={"name": ["a"]})
    assert gpus.gpus_at_once(Job(job(task("a", two, replicas=2), later))) == 6
