"""The progress of a local run, from the end of the logs of rank 0. Reads a bounded part of them and changes nothing.

Used by the SDK for `status` and `list`. A log that cannot be read shows no progress.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence

from vcjob.local.logs.index import IndexEntries, index_path
from vcjob.local.run.run_dir import RunDir
from vcjob.report.podstate import PodState
from vcjob.report.progress import Progress, TimedLine, progress_of

_TAIL = 32 * 1024
#: For every rank at once, of which there may be many.
_SHORT_TAIL = 2 * 1024
#: A rank that has printed nothing for so long may stand still.
_RECENT_SECONDS = 60.0
_INDEX_TAIL = 16 * 4096
_BREAK = re.compile(rb"[\r\n]+")


def read_progress(run: RunDir, pods: Sequence[PodState]) -> Progress | None:
    """How far rank 0, or the only pod, has come; None where that is not certain."""
    pod = _reporting_pod(pods)
    return None if pod is None else _progress_of(run, pod)


def read_progress_by_pod(run: RunDir, pods: Sequence[PodState]) -> dict[str, Progress]:
    """How far each running pod has come, by uid, from the last few lines of its log; others are left out."""
    found = {pod.uid: _progress_of(run, pod, _SHORT_TAIL) for pod in pods}
    return {uid: progress for uid, progress in found.items() if progress is not None}


def read_step_rates(run: RunDir, pods: Sequence[PodState]) -> dict[str, float]:
    """The steps per second of running pods, by name; without those that have printed nothing for a while."""
    now = time.time()
    rates = {}
    for pod in pods:
        lines = _lines_of(run, pod, _SHORT_TAIL)
        found = progress_of(lines)
        newest = max((line.time or 0.0 for line in lines), default=0.0)
        if found is not None and found.rate is not None and now - newest < _RECENT_SECONDS:
            rates[pod.name] = found.rate
    return rates


def _progress_of(run: RunDir, pod: PodState, size: int = _TAIL) -> Progress | None:
    return progress_of(_lines_of(run, pod, size))


def _lines_of(run: RunDir, pod: PodState, size: int) -> list[TimedLine]:
    if pod.phase != "Running":
        return []
    mains = [container for container in pod.containers if container.role == "main"]
    if len(mains) != 1:
        return []
    base = os.path.join(run.pod_folder(pod.name, pod.attempt), f"{mains[0].name}.{mains[0].restarts}")
    lines = [line for stream in ("out", "err") for line in tail_lines(f"{base}.{stream}", size)]
    if all(line.time is not None for line in lines):
        lines.sort(key=lambda line: line.time or 0.0)  # stable: each stream keeps its order
    return lines


def _reporting_pod(pods: Sequence[PodState]) -> PodState | None:
    if not pods:
        return None
    newest = {(pod.task, pod.index): pod for pod in sorted(pods, key=lambda pod: pod.attempt)}
    first = next((pod for pod in newest.values() if pod.rank == 0), None)
    return first or (next(iter(newest.values())) if len(newest) == 1 else None)


def tail_lines(path: str, most: int = _TAIL) -> list[TimedLine]:
    """The lines at the end of a log, each state of a progress bar as a line, with the time at which it arrived."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = max(0, size - most)
            file.seek(start)
            data = file.read(most)
    except OSError:
        return []
    entries = _last_entries(path)
    lines: list[TimedLine] = []
    begin = 0
    for found in [*_BREAK.finditer(data), None]:
        end = found.start() if found else len(data)
        if end > begin and not (start and begin == 0):  # the first line of a cut log may be half a line
            lines.append(TimedLine(data[begin:end].decode(errors="replace"), _time_of(entries, start + end)))
        begin = found.end() if found else end
    return lines


def _last_entries(path: str) -> IndexEntries:
    try:
        with open(index_path(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size // 16 * 16 - _INDEX_TAIL))
            return IndexEntries(file.read(_INDEX_TAIL))
    except OSError:
        return IndexEntries(b"")


def _time_of(entries: IndexEntries, end: int) -> float | None:
    """When the byte before `end` had arrived; bytes that no entry covers yet are newer than the last entry."""
    if not len(entries):
        return None
    place = entries.after(end - 1)
    return entries[min(place, len(entries) - 1)][0]
