"""Where the time of a job went, per pod: waiting, starting, init steps, running, ending, restarts.

Built from the recorded states of the pods, which both backends have; the SDK returns a `Timeline` and the command line
prints it. Pure. Spans of one pod never overlap: timestamps that contradict each other are clamped, never an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from vcjob.plugins.wait import CONTAINER_NAME
from vcjob.report.podstate import ContainerState, PodState

#: The kinds of spans, in the order of a pod's life, each with its name for users.
LABELS = {
    (WAITING := "Waiting"): "waiting to be created",
    (SCHEDULING := "Scheduling"): "waiting for a node",
    (IMAGE := "Pulling"): "pulling images",
    (STARTING := "Startup"): "starting",
    (INIT := "Init"): "init steps",
    (MASTER := "WaitForMaster"): "waiting for the master",
    (IMPORTS := "Imports"): "imports",
    (PREPARING := "FirstCollective"): "before the first collective",
    (RUNNING := "Running"): "running",
    (BACKOFF := "Backoff"): "waiting to restart",
    (ENDING := "Ending"): "ending",
}


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of a pod's life, in epoch seconds. `detail`: the init step, or how it ended.

    `kind` is one of `LABELS`. The row of a pod in a timeline consists of these.
    """

    #: What the pod did: Waiting, Scheduling, Pulling, Startup, Init, WaitForMaster, Imports, FirstCollective
    #: (what came before it), Running, Backoff or Ending.
    kind: str
    #: When it began.
    start: float
    #: When it ended, or now.
    end: float
    #: Which attempt of this index it is, from 0.
    attempt: int = 0
    #: The init step, or how it ended.
    detail: str = ""

    @property
    def seconds(self) -> float:
        return self.end - self.start


class RankStart(NamedTuple):
    """What a rank has reported about its start: when its imports ended, and when it issued its first collective.

    `timeline_of` divides the time in which the rank ran by these.
    """

    imported_at: float | None
    first_call_at: float | None

    @property
    def moment(self) -> float:
        """The ranks of a pod are compared by this; helpers that only import torch come last."""
        return min((each for each in self if each is not None), default=float("inf"))


class TimelineRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The spans of one pod, over all of its attempts, oldest first."""

    task: str
    index: int
    rank: int | None
    spans: tuple[Span, ...]

    @property
    def name(self) -> str:
        pod = f"{self.task}-{self.index}"
        return pod if self.rank is None else f"rank {self.rank} ({pod})"


class Timeline(msgspec.Struct, frozen=True):
    """A job from its creation to its end, or to now while it runs.

    `Handle.timeline` returns it, made from the states of the pods; its methods draw it.
    """

    job: str
    start: float
    end: float
    rows: tuple[TimelineRow, ...]

    @property
    def totals(self) -> dict[str, float]:
        """Seconds per kind, averaged over the pods; kinds that did not occur are left out."""
        sums = dict.fromkeys(LABELS, 0.0)
        for row in self.rows:
            for span in row.spans:
                sums[span.kind] += span.seconds
        return {kind: seconds / len(self.rows) for kind, seconds in sums.items() if seconds > 0}

    @property
    def summary(self) -> str:
        """One line that says where the time went."""
        if not self.rows:
            return f"no pod of {self.job} has been created yet"
        totals = self.totals
        whole = self.end - self.start
        largest = sorted(totals.items(), key=lambda item: -item[1])
        parts = [
            f"{LABELS[kind]} {seconds:.1f}s ({100 * seconds / whole:.0f}%)"
            for kind, seconds in largest
            if whole > 0
        ]
        pods = "1 pod" if len(self.rows) == 1 else f"average of {len(self.rows)} pods"
        return f"{whole:.1f}s, {pods}: {', '.join(parts) or 'nothing has run yet'}"

    def to_dict(self) -> dict[str, Any]:
        """For `-o json`."""
        return {
            "job": self.job,
            "start": self.start,
            "end": self.end,
            "summary": self.summary,
            "totals": self.totals,
            "pods": [{**msgspec.to_builtins(row), "name": row.name} for row in self.rows],
        }

    def to_text(self, width: int) -> list[str]:
        """One bar per pod, at most `width` columns wide."""
        from vcjob.report.timeline_drawing import text

        return text(self, width)

    def to_svg(self) -> str:
        from vcjob.report.timeline_drawing import svg

        return svg(self)

    def to_chrome_trace(self) -> dict[str, Any]:
        """The trace format that Perfetto and chrome://tracing open."""
        from vcjob.report.timeline_drawing import chrome_trace

        return chrome_trace(self)


def timeline_of(
    job: str,
    created: float,
    finished: float | None,
    pods: Sequence[PodState],
    now: float,
    *,
    starts: Mapping[str, Sequence[RankStart]] | None = None,
) -> Timeline:
    """The timeline of a job; `finished` is None while it runs. `starts`: what the ranks of pods reported, by uid."""
    ends = [pod.finished_at for pod in pods if pod.finished_at is not None]
    # Pods of a suspended or just finished job may end after it.
    end = max([created, now] if finished is None else [created, finished, *ends])
    by_pod: dict[tuple[str, int], list[PodState]] = {}
    for pod in sorted(pods, key=lambda pod: pod.attempt):
        by_pod.setdefault((pod.task, pod.index), []).append(pod)
    rows = [
        TimelineRow(task, index, attempts[-1].rank, _row(created, end, attempts, starts or {}))
        for (task, index), attempts in by_pod.items()
    ]
    rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.task, row.index))
    return Timeline(job, created, end, tuple(rows))


def _row(
    created: float, end: float, attempts: list[PodState], starts: Mapping[str, Sequence[RankStart]]
) -> tuple[Span, ...]:
    spans: list[Span] = []
    reached = created
    for pod in attempts:
        spans.append(Span(WAITING, reached, pod.created_at, pod.attempt))
        spans += _pod(pod, end, starts.get(pod.uid, ()))
        reached = max(span.end for span in spans)
    return tuple(_clamped(spans, created, end))


def _pod(pod: PodState, end: float, reported: Sequence[RankStart]) -> list[Span]:
    until = end if pod.finished_at is None else pod.finished_at
    containers = [container for container in pod.containers if container.started_at is not None]
    starts = [time for each in containers for time, _, _ in _instances(each, until)]
    spans = _start(pod, min(starts, default=until))
    for container in containers:
        if container.role == "init":
            kind = MASTER if container.name == CONTAINER_NAME else INIT
            spans += [
                Span(kind, start, stop, pod.attempt, container.name)
                for start, stop, _ in _instances(container, until)
            ]
    mains = [container for container in containers if container.role == "main"]
    if mains:
        # With several main containers, the one that runs longest shows when the pod ran.
        main = max(mains, key=lambda each: sum(stop - start for start, stop, _ in _instances(each, until)))
        spans += _main(pod, main, until, reported)
    return spans


def _start(pod: PodState, until: float) -> list[Span]:
    """From the creation to the first container: on a cluster with the wait for a node and the pull of images."""
    spans: list[Span] = []
    reached = pod.created_at
    if pod.scheduled_at is not None or pod.waits_for_node:
        reached = until if pod.scheduled_at is None else pod.scheduled_at
        spans.append(Span(SCHEDULING, pod.created_at, reached, pod.attempt))
    if pod.pulling_at is not None:
        pulled = until if pod.pulled_at is None else pod.pulled_at
        spans.append(Span(STARTING, reached, pod.pulling_at, pod.attempt))
        spans.append(Span(IMAGE, pod.pulling_at, pulled, pod.attempt))
        reached = pulled
    return [*spans, Span(STARTING, reached, until, pod.attempt)]


def _main(pod: PodState, main: ContainerState, until: float, starts: Sequence[RankStart]) -> list[Span]:
    spans: list[Span] = []
    for start, stop, how in _instances(main, until):
        if spans:
            spans.append(Span(BACKOFF, spans[-1].end, start, pod.attempt))
        asked = pod.deleted_at
        if asked is not None and start < asked < stop:
            spans += _run(start, asked, pod.attempt, "", starts)
            spans.append(Span(ENDING, asked, stop, pod.attempt, how))
        else:
            spans += _run(start, stop, pod.attempt, how, starts)
    return spans


def _run(start: float, stop: float, attempt: int, how: str, starts: Sequence[RankStart]) -> list[Span]:
    """One instance of the main container, divided by what its first rank reported about its start."""
    own = [each for each in starts if start <= each.moment <= stop]
    first = min(
        own, key=lambda each: (each.first_call_at is None, each.moment), default=RankStart(None, None)
    )
    spans: list[Span] = []
    for kind, end in ((IMPORTS, first.imported_at), (PREPARING, first.first_call_at)):
        if end is not None and start < end < stop:
            spans.append(Span(kind, start, end, attempt))
            start = end
    return [*spans, Span(RUNNING, start, stop, attempt, how)]


def _instances(container: ContainerState, until: float) -> list[tuple[float, float, str]]:
    """Start, end and how it ended, of the previous and the current instance of a container."""
    found: list[tuple[float, float, str]] = []
    for ended in (container.last, container.ended):
        if ended is not None:
            start = ended.started_at or (container.started_at if ended is container.ended else None)
            if start is not None:
                how = ended.reason if ended.exit_code == 0 else f"{ended.reason}, exit code {ended.exit_code}"
                found.append((start, ended.finished_at, how))
    if container.ended is None and container.started_at is not None and not container.waiting:
        found.append((container.started_at, until, ""))
    return found


def _clamped(spans: Iterable[Span], start: float, end: float) -> Iterable[Span]:
    """In the order of time, within the job, without overlaps and without empty spans."""
    reached = start
    for span in sorted(spans, key=lambda span: (span.start, span.end)):
        begin, stop = max(span.start, reached), min(span.end, end)
        if stop > begin:
            yield msgspec.structs.replace(span, start=begin, end=stop)
            reached = stop
