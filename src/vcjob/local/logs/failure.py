"""Why a run failed: which rank failed first, how, its last lines of output, and which ranks only followed.

Used by the SDK for the failure report of a local job. It reads the records and logs of the run and changes nothing.
"""

from __future__ import annotations

import os
import re

from vcjob.lifecycle.status import Status
from vcjob.local.logs.reader import tail_offset
from vcjob.local.run.run_dir import RunDir
from vcjob.report.failure import LAST_LINES, Culprit, FailureReport, last_frame, pod_name, signal_name
from vcjob.report.podstate import ContainerState, Ended, PodState

#: What ranks print when another rank has ended: gloo, NCCL, the store, a plain socket, a signal from outside.
_LOST_A_PEER = re.compile(
    r"connection (closed|reset|refused|aborted)|broken ?pipe|peer|remote (process|error)|ncclRemoteError"
    r"|socket timeout|timed ?out|watchdog|SignalException|KeyboardInterrupt|connectFullMesh",
    re.IGNORECASE,
)


def explain(run: RunDir, status: Status, pods: list[PodState]) -> FailureReport:
    """Which rank failed first. Not simply the one that ended first: a rank that raised an error may take a second to
    end, and its peers notice the closed connection and end before it. So an error of its own counts before an error
    about a lost peer, and an earlier error before a later one.
    """
    suspects = [_Suspect(run, pod, *first) for pod in _last_attempts(pods) if (first := pod.first_failure())]
    suspects = [suspect for suspect in suspects if suspect.failed_on_its_own]
    if not suspects:
        return FailureReport(None, [])
    known = status.culprit
    at = (known.task, known.index, known.attempt) if known else None
    culprit = min(suspects, key=lambda s: (s.lost_a_peer, round(s.moment, 2), s.key != at, s.moment))
    victims = [
        pod
        for pod in _last_attempts(pods)
        if pod.uid != culprit.pod.uid and _ended_after(pod, culprit.moment)
    ]
    return FailureReport(culprit.describe(), [pod_name(victim) for victim in victims])


def _last_attempts(pods: list[PodState]) -> list[PodState]:
    """The last attempt of every index, of the last version."""
    newest = {(pod.task, pod.index): pod for pod in sorted(pods, key=lambda pod: pod.attempt)}
    version = max((pod.version for pod in pods), default=0)
    return [pod for pod in newest.values() if pod.version == version]


class _Suspect:
    """A pod that failed, with the end of its output."""

    def __init__(self, run: RunDir, pod: PodState, container: ContainerState, ended: Ended) -> None:
        self.pod, self.container, self.ended = pod, container, ended
        self.key = (pod.task, pod.index, pod.attempt)
        restart = container.restarts if container.ended is ended else max(0, container.restarts - 1)
        base = os.path.join(run.pod_folder(pod.name, pod.attempt), f"{container.name}.{restart}")
        self.lines = last_lines(f"{base}.err", LAST_LINES)
        self.frame, self.exception = last_frame(self.lines)
        #: When it failed: when it wrote its exception to stderr, or when it ended.
        self.moment = (
            min(ended.finished_at, _modified_at(f"{base}.err")) if self.exception else ended.finished_at
        )
        if not self.lines:
            self.lines = last_lines(f"{base}.out", LAST_LINES)

    @property
    def failed_on_its_own(self) -> bool:
        if self.pod.phase != "Failed" or self.ended.reason == "ContainerStatusUnknown":
            return False
        # A rank that was stopped, but had raised an error before that, failed on its own and was slow to end.
        return not self.ended.stopped or (self.exception is not None and not self.lost_a_peer)

    @property
    def lost_a_peer(self) -> bool:
        return _LOST_A_PEER.search(self.exception or (self.lines or [""])[-1]) is not None

    def describe(self) -> Culprit:
        pod, ended = self.pod, self.ended
        return Culprit(
            pod=pod.name, task=pod.task, index=pod.index, rank=pod.rank, attempt=pod.attempt,
            container=self.container.name, exit_code=ended.exit_code, reason=ended.reason,
            signal=signal_name(ended.signal), message=ended.message or pod.message, finished_at=ended.finished_at,
            frame=self.frame, exception=self.exception, stderr=self.lines,
        )  # fmt: skip


def _ended_after(pod: PodState, moment: float) -> bool:
    return pod.phase != "Succeeded" and (pod.finished_at is None or pod.finished_at >= moment)


def _modified_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return float("inf")


def last_lines(path: str, count: int) -> list[str]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            # A line may be megabytes of a progress bar; only its end is shown.
            start = max(tail_offset(file.fileno(), size, count), size - 64 * 1024)
            file.seek(start)
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines][-count:]
