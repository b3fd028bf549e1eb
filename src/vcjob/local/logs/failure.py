"""Why a run failed, failure first: which rank began it, how, its last words, and who was only a victim."""

from __future__ import annotations

import os
import re

from vcjob.lifecycle.status import Status
from vcjob.local.logs.reader import tail_offset
from vcjob.local.run.run_dir import RunDir
from vcjob.report.failure import LAST_LINES, Culprit, FailureReport, last_frame, pod_name, signal_name
from vcjob.report.podstate import ContainerState, Ended, PodState

#: What ranks say when another one has gone: gloo, NCCL, the store, a plain socket, a signal from outside.
_FELT_A_PEER = re.compile(
    r"connection (closed|reset|refused|aborted)|broken ?pipe|peer|remote (process|error)|ncclRemoteError"
    r"|socket timeout|timed ?out|watchdog|SignalException|KeyboardInterrupt|connectFullMesh",
    re.IGNORECASE,
)


def explain(run: RunDir, status: Status, pods: list[PodState]) -> FailureReport:
    """Who began it. Not simply who ended first: a rank that raised an error may take a second to end, and its peers
    notice the closed connection and are gone before it. So an error of one's own counts before the complaint about
    a lost peer, and an earlier one before a later one.
    """
    suspects = [_Suspect(run, pod, *first) for pod in _last_tries(pods) if (first := pod.first_failure())]
    suspects = [suspect for suspect in suspects if suspect.failed_by_itself]
    if not suspects:
        return FailureReport(None, [])
    known = status.culprit
    at = (known.task, known.index, known.attempt) if known else None
    culprit = min(suspects, key=lambda s: (s.felt_a_peer, round(s.moment, 2), s.key != at, s.moment))
    victims = [
        pod for pod in _last_tries(pods) if pod.uid != culprit.pod.uid and _suffered(pod, culprit.moment)
    ]
    return FailureReport(culprit.describe(), [pod_name(victim) for victim in victims])


def _last_tries(pods: list[PodState]) -> list[PodState]:
    """The last attempt of every index, of the last version."""
    newest = {(pod.task, pod.index): pod for pod in sorted(pods, key=lambda pod: pod.attempt)}
    version = max((pod.version for pod in pods), default=0)
    return [pod for pod in newest.values() if pod.version == version]


class _Suspect:
    """A pod that failed, with its last words."""

    def __init__(self, run: RunDir, pod: PodState, container: ContainerState, ended: Ended) -> None:
        self.pod, self.container, self.ended = pod, container, ended
        self.key = (pod.task, pod.index, pod.attempt)
        restart = container.restarts if container.ended is ended else max(0, container.restarts - 1)
        base = os.path.join(run.pod_folder(pod.name, pod.attempt), f"{container.name}.{restart}")
        self.lines = last_lines(f"{base}.err", LAST_LINES)
        self.frame, self.exception = last_frame(self.lines)
        #: When it failed: with its last words on stderr, or with its end.
        self.moment = min(ended.finished_at, _written(f"{base}.err")) if self.exception else ended.finished_at
        if not self.lines:
            self.lines = last_lines(f"{base}.out", LAST_LINES)

    @property
    def failed_by_itself(self) -> bool:
        if self.pod.phase != "Failed" or self.ended.reason == "ContainerStatusUnknown":
            return False
        # One that was ended, but had raised an error before, was only slow to end.
        return not self.ended.stopped or (self.exception is not None and not self.felt_a_peer)

    @property
    def felt_a_peer(self) -> bool:
        return _FELT_A_PEER.search(self.exception or (self.lines or [""])[-1]) is not None

    def describe(self) -> Culprit:
        pod, ended = self.pod, self.ended
        return Culprit(
            pod=pod.name, task=pod.task, index=pod.index, rank=pod.rank, attempt=pod.attempt,
            container=self.container.name, exit_code=ended.exit_code, reason=ended.reason,
            signal=signal_name(ended.signal), message=ended.message or pod.message, finished_at=ended.finished_at,
            frame=self.frame, exception=self.exception, stderr=self.lines,
        )  # fmt: skip


def _suffered(pod: PodState, moment: float) -> bool:
    return pod.phase != "Succeeded" and (pod.finished_at is None or pod.finished_at >= moment)


def _written(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def last_lines(path: str, count: int) -> list[str]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A line may be megabytes of progress bar; what is shown is not.
            start = max(tail_offset(file.fileno(), size, count), size - 64 * 1024)
            file.seek(start)
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines][-count:]
