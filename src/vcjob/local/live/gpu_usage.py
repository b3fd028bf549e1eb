"""GPUs as NVML reports them: how busy each is, its memory, and which processes use it.

Used by `usage`. Without NVIDIA's driver, or where NVML fails, there are no GPUs; nothing is raised.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple


class GpuUsage(NamedTuple):
    """One GPU. `memory_by_pid` has the processes that NVML shows; None where it does not know their memory.

    `usage_of_pod` adds those together on which the processes of a rank run.
    """

    uuid: str
    percent: float | None
    memory_bytes: int
    memory_by_pid: Mapping[int, int | None]


def read_gpus() -> list[GpuUsage]:
    """All GPUs of this machine; empty where NVML cannot be used."""
    try:
        pynvml: Any = import_module("pynvml")  # it has no type hints
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [_read(pynvml, number) for number in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError:
        return []
    finally:
        pynvml.nvmlShutdown()


def _read(nvml: Any, number: int) -> GpuUsage:
    device = nvml.nvmlDeviceGetHandleByIndex(number)
    uuid = nvml.nvmlDeviceGetUUID(device)
    try:
        percent: float | None = float(nvml.nvmlDeviceGetUtilizationRates(device).gpu)
    except nvml.NVMLError:  # a card that is split into MIG devices has no utilisation
        percent = None
    processes = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    return GpuUsage(
        uuid if isinstance(uuid, str) else uuid.decode(),
        percent,
        int(nvml.nvmlDeviceGetMemoryInfo(device).used),
        {int(each.pid): each.usedGpuMemory for each in processes},
    )


def usage_of_pod(
    gpus: Sequence[GpuUsage], assigned: Sequence[str], pids: Collection[int]
) -> tuple[tuple[str, ...], float | None, int | None]:
    """The GPUs that a pod uses, how busy they are on average, and the memory that it uses on them.

    They are those on which its processes run, else those assigned to it. Memory is that of its processes where NVML
    knows it; for an assigned GPU whose processes NVML cannot name (in a container), all memory in use on it.
    """
    own = [gpu for gpu in gpus if any(pid in gpu.memory_by_pid for pid in pids)]
    shown = own or [gpu for gpu in gpus if gpu.uuid in assigned]
    if not shown:
        return (), None, None
    known = [gpu.percent for gpu in shown if gpu.percent is not None]
    busy = round(sum(known) / len(known), 1) if known else None
    if own:
        parts = [gpu.memory_by_pid[pid] for gpu in own for pid in pids if pid in gpu.memory_by_pid]
        memory = None if any(part is None for part in parts) else sum(part or 0 for part in parts)
    else:
        memory = sum(gpu.memory_bytes for gpu in shown)
    return tuple(gpu.uuid for gpu in shown), busy, memory
