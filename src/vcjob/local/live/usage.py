"""Measures what the processes of each rank use, from /proc, over a short interval. Used by the SDK for `vcjob top`.

CPU time is counted for the rank's process and all of its descendants; a process that ends in between counts until it
was last seen. Memory is the resident memory, so pages that processes share count once for each. Linux only.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from vcjob.errors import BackendError
from vcjob.local.live.gpu_usage import GpuUsage, read_gpus, usage_of_pod
from vcjob.local.live.rank_process import main_container, process_tree
from vcjob.local.machine import process
from vcjob.report.podstate import PodState
from vcjob.report.usage import RankUsage, UsageReport

_DELAYS = "/proc/sys/kernel/task_delayacct"


class ProcessSample(NamedTuple):
    """One process: CPU time and time spent waiting for block devices in ticks, resident memory in pages."""

    started: int
    cpu: int
    io_wait: int
    pages: int


Sample = Mapping[int, ProcessSample]


def measure(job: str, pods: Sequence[PodState], seconds: float) -> UsageReport:
    """The usage of these running pods over the next `seconds`."""
    if sys.platform != "linux":
        raise BackendError("what ranks use can be measured on Linux only")
    began = time.monotonic()
    before = [_sample(pod) for pod in pods]
    time.sleep(seconds)
    after = [_sample(pod) for pod in pods]
    took = time.monotonic() - began
    gpus = read_gpus()
    found = [
        usage_between(pod, first, second, took, gpus)
        for pod, first, second in zip(pods, before, after, strict=True)
        if second
    ]
    found.sort(key=lambda usage: (usage.rank is None, usage.rank or 0, usage.pod))
    return UsageReport(job, took, tuple(found))


def usage_between(
    pod: PodState, before: Sample, after: Sample, seconds: float, gpus: Sequence[GpuUsage]
) -> RankUsage:
    """What a pod used between two samples of its processes."""
    cpu = wait = 0
    for pid, sample in after.items():
        first = before.get(pid)
        same = first is not None and first.started == sample.started
        cpu += sample.cpu - (first.cpu if first is not None and same else 0)
        wait += sample.io_wait - (first.io_wait if first is not None and same else 0)
    ticks = os.sysconf("SC_CLK_TCK") * max(seconds, 1e-3)
    names, busy, memory = usage_of_pod(gpus, pod.gpus, after)
    return RankUsage(
        pod=pod.name,
        rank=pod.rank,
        node_rank=pod.node_rank,
        processes=len(after),
        cpu_percent=round(100 * cpu / ticks, 1),
        memory_bytes=sum(sample.pages for sample in after.values()) * os.sysconf("SC_PAGE_SIZE"),
        io_wait_percent=round(100 * wait / ticks, 1) if _counts_delays() else None,
        gpus=names,
        gpu_percent=busy,
        gpu_memory_bytes=memory,
    )


def _sample(pod: PodState) -> Sample:
    container = main_container(pod)
    if container is None or container.pid is None:
        return {}
    found: dict[int, ProcessSample] = {}
    for pid in process_tree(container.pid):
        sample = read_process(pid)
        if sample is None:
            continue
        if pid == container.pid and container.pid_start not in (None, sample.started):
            return {}  # the pid belongs to another process by now
        found[pid] = sample
    return found


def read_process(pid: int) -> ProcessSample | None:
    """None where the process has ended."""
    fields = process.stat_fields(pid)
    if fields is None or fields[0] == "Z":
        return None
    return ProcessSample(int(fields[19]), int(fields[11]) + int(fields[12]), int(fields[39]), int(fields[21]))


def _counts_delays() -> bool:
    """Whether the kernel counts how long processes wait for block devices."""
    try:
        with open(_DELAYS) as file:
            return file.read().strip() == "1"
    except OSError:
        return False
