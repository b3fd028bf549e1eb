"""`vcjob top`: what real ranks use, and the arithmetic of samples and GPUs."""

from __future__ import annotations

import json
import os

import pytest

from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, eventually, job, python, ranks, task
from vcjob.local.live.gpu_usage import GpuUsage, read_gpus, usage_of_pod
from vcjob.local.live.usage import ProcessSample, read_process, usage_between
from vcjob.report.podstate import PodState
from vcjob.report.usage import bytes_text

_PROGRAM = """
import os, time
block = bytearray(64 << 20)
print("up", flush=True)
while True:
    if os.environ["RANK"] == "0":
        sum(range(1000))
    else:
        time.sleep(0.05)
"""
#: Rank 1 says how far it is, four times a second.
_TRAINS = """
import os, time
for step in range(1, 1000):
    if os.environ["RANK"] == "1":
        print(f"step {step}/1000", flush=True)
    time.sleep(0.25)
"""
_POD = PodState(task="a", index=0, name="job-a-0", uid="u", rank=0)
_TICKS = os.sysconf("SC_CLK_TCK")


def test_every_rank_is_measured_with_its_descendants(start: Start) -> None:
    handle = start(job(*ranks(python(_PROGRAM), workers=1)))
    eventually(lambda: len([line for line in handle.logs() if line.text == "up"]) == 2)
    report = json.loads(verb("top", "job", "-o", "json", "--interval", "0.5").stdout)
    busy, idle = report["ranks"]
    assert (busy["rank"], idle["rank"]) == (0, 1)
    assert busy["cpuPercent"] > idle["cpuPercent"]
    assert min(busy["memoryBytes"], idle["memoryBytes"]) > 64 << 20
    shown = verb("top", "job", "--interval", "0.1", "--rank", "1").stdout.splitlines()
    assert shown[0].split()[:4] == ["RANK", "POD", "CPU", "MEMORY"] and len(shown) == 2
    assert shown[1].split()[:2] == ["1", "job-worker-0"]


@pytest.mark.slow
def test_the_step_rate_of_every_rank_is_shown(start: Start) -> None:
    handle = start(job(*ranks(python(_TRAINS), workers=1)))
    eventually(lambda: len(list(handle.logs())) > 6)
    first, second = json.loads(verb("top", "job", "-o", "json", "--interval", "0.1").stdout)["ranks"]
    assert "stepsPerSecond" not in first and second["stepsPerSecond"] > 1
    heading, one, two = verb("top", "job", "--interval", "0.1").stdout.splitlines()
    assert heading.endswith("  STEPS/S") and one.split()[-1] == "-" and float(two.split()[-1]) > 1


@pytest.mark.slow
def test_the_step_rate_of_a_rank_that_stands_still_is_not_shown(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = start(job(*ranks(python(_TRAINS), workers=1)))
    eventually(lambda: len(list(handle.logs())) > 6)
    assert handle.usage(seconds=0.1).has_steps
    monkeypatch.setattr("vcjob.local.logs.progress._RECENT_SECONDS", 0.0)
    assert not handle.usage(seconds=0.1).has_steps


def test_ranks_of_torchrun_are_shown_as_node_ranks(start: Start) -> None:
    plugins = {"pytorch": ["--nproc-per-node=2"]}
    handle = start(job(*ranks("sleep 600", workers=1), plugins=plugins))
    eventually(lambda: handle.phase == "Running")
    for shown in (verb("top", "job", "--interval", "0.1"), verb("status", "job")):
        assert "NODE RANK  POD" in shown.stdout, shown
    assert all(pod.node_rank for pod in handle.pods())


def test_a_job_that_does_not_run_and_an_unknown_rank_are_one_sentence(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    assert "no running pod has the rank 7" in verb("top", "job", "--rank", "7").stderr
    handle.stop(now=True)
    handle.wait(PATIENCE)
    over = verb("top", "job")
    assert over.returncode == 2 and "is running: it is Terminated" in over.stderr


def test_cpu_is_what_was_used_between_the_samples() -> None:
    before = {1: ProcessSample(10, 5 * _TICKS, 0, 0), 2: ProcessSample(11, 50 * _TICKS, 0, 0)}
    after = {
        1: ProcessSample(10, 6 * _TICKS, 0, 10),  # one second more
        2: ProcessSample(99, 2 * _TICKS, 0, 20),  # another process with the same pid
        3: ProcessSample(12, _TICKS, 0, 30),  # new
    }
    usage = usage_between(_POD, before, after, 2.0, [])
    assert (usage.cpu_percent, usage.processes) == (200.0, 3)
    assert usage.memory_bytes == 60 * os.sysconf("SC_PAGE_SIZE")
    assert usage.gpus == () and usage.gpu_percent is None


def test_a_process_that_has_ended_has_no_sample() -> None:
    assert read_process(2**22 + 1) is None
    own = read_process(os.getpid())
    assert own is not None and own.pages > 0


@pytest.mark.parametrize(
    ("assigned", "pids", "shown"),
    [
        ((), (7,), (("GPU-a",), 80.0, 100)),  # by its processes
        (("GPU-b",), (7,), (("GPU-a",), 80.0, 100)),  # where they run counts before the assignment
        (("GPU-b",), (1,), (("GPU-b",), None, 900)),  # NVML does not name its processes
        (("GPU-a", "GPU-b"), (1,), (("GPU-a", "GPU-b"), 80.0, 1400)),
        ((), (8,), (("GPU-a",), 80.0, None)),  # NVML does not know its memory
        ((), (1,), ((), None, None)),
    ],
)
def test_the_gpus_of_a_pod_are_those_of_its_processes_or_those_assigned(
    assigned: tuple[str, ...], pids: tuple[int, ...], shown: object
) -> None:
    gpus = [GpuUsage("GPU-a", 80.0, 500, {7: 100, 8: None}), GpuUsage("GPU-b", None, 900, {})]
    assert usage_of_pod(gpus, assigned, pids) == shown


def test_without_a_driver_there_are_no_gpus() -> None:
    if os.path.exists("/dev/nvidiactl"):
        assert read_gpus()
    else:
        assert read_gpus() == []


def test_memory_is_written_as_kubernetes_does() -> None:
    assert [bytes_text(n) for n in (None, 0, 2048, 5 << 20, 3 << 29)] == ["-", "0", "2Ki", "5Mi", "1.5Gi"]
