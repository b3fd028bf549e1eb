"""Jobs and pods as rows of tables: columns, durations, states.

Plain text without colours or escaping: the caller cleans and paints it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.cli.output.style import Style
    from vcjob.report.podstate import PodState
    from vcjob.report.usage import RankUsage

_PHASE_COLOURS = {
    "Completed": "green",
    "Succeeded": "green",
    "Running": "cyan",
    "Failed": "red",
    "Terminated": "red",
    "Aborted": "yellow",
}


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their longest cell, two spaces apart."""
    widths = [max(len(row[place]) for row in [headings, *rows]) for place in range(len(headings))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [headings, *rows]
    ]


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{max(0.0, seconds):.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def painted(phase: str, style: Style) -> str:
    colour = _PHASE_COLOURS.get(phase)
    return style(phase, colour) if colour else phase


def rank_heading(pods: Sequence[PodState | RankUsage]) -> str:
    """What the numbers in the column of ranks count: torchrun numbers the ranks in its pods itself."""
    return "NODE RANK" if any(pod.node_rank for pod in pods) else "RANK"


def rank_text(pod: PodState) -> str:
    return "-" if pod.rank is None else str(pod.rank)


def pod_phase(pod: PodState) -> str:
    """The phase, or a more specific state such as CrashLoopBackOff."""
    if pod.deleted_at is not None and not pod.finished:
        return "Terminating"
    if pod.finished:
        return "Ended" if pod.deleted_at is not None and pod.phase == "Failed" else pod.phase
    for container in pod.containers:
        if container.waiting == "CrashLoopBackOff":
            return container.waiting
    if pod.phase == "Pending":
        for container in pod.containers:
            if container.role != "main" and container.running:
                return f"Init:{container.name}"
    return pod.phase


def exit_text(pod: PodState) -> str:
    mains = [container for container in pod.containers if container.role == "main"]
    codes = [str(c.ended.exit_code) for c in mains if c.ended is not None]
    if not codes:
        codes = [str(c.ended.exit_code) for c in pod.containers if c.ended is not None and c.ended.exit_code]
    return ",".join(codes) or "-"


def pod_time(pod: PodState) -> str:
    if pod.started_at is None:
        return "-"
    return duration((pod.finished_at or time.time()) - pod.started_at)


def newest_pods(pods: Sequence[PodState]) -> list[PodState]:
    """The last attempt of every index, by rank, task and index."""
    newest: dict[tuple[str, int], PodState] = {}
    for pod in pods:
        known = newest.get((pod.task, pod.index))
        if known is None or pod.attempt >= known.attempt:
            newest[pod.task, pod.index] = pod
    return sorted(newest.values(), key=lambda p: (p.rank is None, p.rank or 0, p.task, p.index))


_POD_HEADINGS = ("POD", "STATE", "EXIT", "RESTARTS", "ATTEMPT", "TIME")


def pod_row(pod: PodState) -> tuple[str, ...]:
    return (
        rank_text(pod), pod.name, pod_phase(pod), exit_text(pod), str(pod.restarts), str(pod.attempt), pod_time(pod)
    )  # fmt: skip


def pod_table(pods: Sequence[PodState]) -> list[str]:
    return table((rank_heading(pods), *_POD_HEADINGS), [pod_row(pod) for pod in newest_pods(pods)])
