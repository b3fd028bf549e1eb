"""What the ranks of a job use: CPU, memory, GPUs.

A backend measures and fills it in, `Handle.usage` returns it, and `vcjob top` shows it. Plain data: a value that the
backend cannot measure is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class RankUsage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One pod: the process of its rank and everything below that. None: not known on this machine.

    A backend measures it over a short time; `vcjob top` prints one line for each.
    """

    #: The name of the pod.
    pod: str
    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None
    #: The number of its processes; null where that is not known.
    processes: int | None
    #: Of one core: 200 means two cores.
    cpu_percent: float
    #: The memory of all of its processes.
    memory_bytes: int
    #: Share of the time in which its processes waited for block devices, in percent of one process.
    io_wait_percent: float | None = None
    #: The GPUs that it uses.
    gpus: tuple[str, ...] = ()
    #: The utilisation of its GPUs.
    gpu_percent: float | None = None
    #: The memory that it uses on its GPUs.
    gpu_memory_bytes: int | None = None
    #: Training steps per second, from what it printed last; null where that is not certain.
    steps_per_second: float | None = None
    #: Whether `rank` is a node rank, because torchrun starts several ranks in the pod.
    node_rank: bool = False

    @property
    def name(self) -> str:
        return self.pod if self.rank is None else f"rank {self.rank}"

    @property
    def memory_text(self) -> str:
        return bytes_text(self.memory_bytes)

    @property
    def gpu_memory_text(self) -> str:
        return bytes_text(self.gpu_memory_bytes)


class UsageReport(msgspec.Struct, frozen=True, rename="camel"):
    """All ranks that run, in the order of ranks, measured over `seconds`.

    `Handle.usage` returns it; ranks that have ended are left out.
    """

    #: The name of the Job.
    job: str
    #: How long was measured.
    seconds: float
    #: The pods that run, in the order of ranks.
    ranks: tuple[RankUsage, ...]

    @property
    def has_gpus(self) -> bool:
        return any(usage.gpus for usage in self.ranks)

    @property
    def has_steps(self) -> bool:
        return any(usage.steps_per_second is not None for usage in self.ranks)

    def to_dict(self) -> dict[str, Any]:
        """For `-o json`."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def with_step_rates(report: UsageReport, rates: Mapping[str, float]) -> UsageReport:
    """The report with the steps per second of pods, by their names."""
    ranks = [msgspec.structs.replace(usage, steps_per_second=rates.get(usage.pod)) for usage in report.ranks]
    return msgspec.structs.replace(report, ranks=tuple(ranks))


def bytes_text(count: int | None) -> str:
    """`512Mi`, `1.5Gi`: as Kubernetes writes memory, rounded."""
    if count is None:
        return "-"
    size = float(count)
    for unit in ("", "Ki", "Mi"):
        if size < 1024:
            return f"{size:.0f}{unit}"
        size /= 1024
    return f"{size:.1f}Gi"
