"""What the diagnosis of a cluster job adds to its pods: events, and the last lines of the pods that failed.

Called by the cluster handle. Logs that may not be read, or whose pod is deleted, are left out: then the findings rest
on container states and events alone. At most `MOST_LOGS` pods are read, those that ended first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vcjob.cluster.resources import seconds_of
from vcjob.diagnosis.observation import EventObservation, Observation, PodObservation
from vcjob.errors import VcjobError
from vcjob.report.events import event_time
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState
from vcjob.sdk.log_lines import LogSteps, chunks_of

MOST_LOGS = 16
TAIL_LINES = 200
_TRACEBACK = b"Traceback (most recent call last):"

ReadLogs = Callable[[LogFilter], LogSteps]


def event_observation(event: dict[str, Any]) -> EventObservation:
    moment = event_time(event)
    about = event.get("involvedObject") or {}
    return EventObservation(
        event.get("reason") or "",
        event.get("message") or "",
        event.get("type") or "Normal",
        about.get("name") or "",
        seconds_of(moment) if moment else None,
    )


def add_image_pulls(pods: list[PodState], events: list[dict[str, Any]]) -> None:
    """When the images of each pod were pulled, as its events say; images that were on the node already cost nothing."""
    by_uid = {pod.uid: pod for pod in pods}
    for event in events:
        pod = by_uid.get((event.get("involvedObject") or {}).get("uid") or "")
        found = event_observation(event)
        if pod is None or found.at is None:
            continue
        if found.reason == "Pulling":
            pod.pulling_at = min(found.at, pod.pulling_at or found.at)
        elif found.reason == "Pulled" and pod.pulling_at is not None:
            pod.pulled_at = max(found.at, pod.pulled_at or found.at)


def add_output(observation: Observation, read: ReadLogs) -> None:
    """The last lines of the pods that failed, with the time of the last traceback."""
    failed = [pod for pod in observation.pods if pod.end is not None and pod.end.exit_code != 0]
    failed.sort(key=lambda pod: (pod.end and pod.end.finished_at) or 0.0)
    chosen = {(pod.task, pod.index, pod.container): pod for pod in failed[:MOST_LOGS]}
    containers = tuple(sorted({pod.container for pod in chosen.values()}))
    ranks = tuple(pod.rank for pod in chosen.values() if pod.rank is not None)
    tasks = tuple(sorted({pod.task for pod in chosen.values() if pod.rank is None}))
    choices = [LogFilter(ranks=ranks, containers=containers)] if ranks else []
    choices += [LogFilter(tasks=tasks, containers=containers)] if tasks else []
    for choice in choices:
        try:
            for chunk in chunks_of(read(choice)):
                _add(chosen, chunk)
        except VcjobError:
            continue  # the pods are deleted, or we may not read their logs


def _add(chosen: dict[tuple[str, int, str], PodObservation], chunk: Chunk) -> None:
    pod = chosen.get((chunk.origin.task, chunk.origin.index, chunk.origin.container))
    if pod is None:
        return
    lines = chunk.data.decode(errors="replace").split("\n")[:-1]
    # A cluster keeps both streams in one log.
    pod.stdout = (*pod.stdout, *(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines))[-TAIL_LINES:]
    if _TRACEBACK in chunk.data:
        pod.error_at = chunk.received
