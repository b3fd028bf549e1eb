"""Reads what the agents of a pod's ranks have reported (`vcjob.local.pod.rank_agent`).

Used by the supervisor's watch for hangs and by the diagnosis of a failed job. A report that does not exist, is half
written or cannot be understood is left out.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any, NamedTuple

import msgspec

from vcjob.diagnosis.observation import Collective, Frame, RankState
from vcjob.local.machine import files

_NAME = re.compile(r"rank-state\.(\d+)\.json")
_LARGEST = 32 << 20
#: Entries per report that are compared.
_NEWEST = 2000
#: Collectives to which every rank must give tensors of the same size. In others, sizes may differ.
_SAME_SIZES = frozenset({"all_reduce", "broadcast", "reduce"})


class _Entry(msgspec.Struct):
    collective_seq_id: int
    profiling_name: str
    process_group: list[str]
    input_sizes: list[Any] = []
    input_dtypes: list[Any] = []
    time_created_ns: int = 0
    state: str = ""
    retired: bool = False
    is_p2p: bool = False


class _Report(msgspec.Struct):
    pid: int
    rank: int | None
    at: float
    ended: bool = False
    stack_since: float | None = None
    loops_since: float | None = None
    groups: dict[str, tuple[int, ...]] = {}
    stack: list[tuple[str, str, int]] = []
    entries: list[_Entry] = []


_REPORT = msgspec.json.Decoder(_Report)


class RankReport(NamedTuple):
    """One report: the state of the rank, its process, and since when its main thread has been in the same functions."""

    pid: int
    state: RankState
    stack_since: float | None
    loops_since: float | None


def read_reports(folder: str) -> list[RankReport]:
    """The reports in the folder of a pod, of the processes that belong to a rank."""
    found = []
    try:
        names = sorted(filter(_NAME.fullmatch, os.listdir(folder)))
    except OSError:
        return []
    for name in names:
        path = os.path.join(folder, name)
        try:
            if os.path.getsize(path) > _LARGEST:
                continue
            report = _REPORT.decode(files.read_bytes(path) or b"")
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            continue
        if report.rank is not None:
            found.append(_read(report, report.rank))
    return found


def _read(report: _Report, rank: int) -> RankReport:
    state = RankState(
        rank=rank,
        collectives=tuple(_collective(entry) for entry in report.entries[-_NEWEST:] if not entry.is_p2p),
        groups=report.groups,
        stack=tuple(Frame(*frame) for frame in report.stack),
        ended=report.ended,
    )
    return RankReport(report.pid, state, report.stack_since, report.loops_since)


def _collective(entry: _Entry) -> Collective:
    name = entry.profiling_name.rpartition(":")[2]
    return Collective(
        sequence=entry.collective_seq_id,
        name=name,
        group=entry.process_group[0] if entry.process_group else "0",
        sizes=_sizes(entry) if name in _SAME_SIZES else "",
        issued_at=entry.time_created_ns / 1e9,
        done=entry.retired or entry.state == "completed",
    )


def _sizes(entry: _Entry) -> str:
    """Elements and types, not shapes: ranks may see the same data in different shapes."""
    try:
        counts = [math.prod(size) for size in entry.input_sizes]
    except TypeError:
        return ""
    kinds = [*entry.input_dtypes, *[""] * len(counts)]
    return ", ".join(f"{count} {kind}".strip() for count, kind in zip(counts, kinds, strict=False))
