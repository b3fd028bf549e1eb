"""Why a run failed, failure first: which rank began it, how, its last words, and who was only a victim."""

from __future__ import annotations

import os
import re
import signal

import msgspec

from vcjob.lifecycle.status import Status
from vcjob.local.logs import tail_offset
from vcjob.local.podstate import ContainerState, Ended, PodState
from vcjob.local.run import Run

LAST_LINES = 20
_FRAME = re.compile(r'^\s*File "(.+)", line (\d+)(?:, in (.+))?$')


class Culprit(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The container that failed first."""

    pod: str
    task: str
    index: int
    rank: int | None
    attempt: int
    container: str
    exit_code: int
    reason: str
    signal: str | None = None
    message: str | None = None
    finished_at: float | None = None
    #: The last frame of a Python traceback, and the exception.
    frame: str | None = None
    exception: str | None = None
    stderr: list[str] = []

    @property
    def who(self) -> str:
        name = f"{self.task}-{self.index}"
        return name if self.rank is None else f"rank {self.rank} ({name})"

    @property
    def how(self) -> str:
        if self.reason == "StartError":
            return "could not be started"
        if self.reason == "OOMKilled":
            return "was killed: it used more memory than its limit"
        if self.signal:
            return f"was killed by {self.signal}"
        return f"ended with exit code {self.exit_code}"


class FailureReport(msgspec.Struct, rename="camel"):
    culprit: Culprit | None
    #: Pods that ended badly only after the first one had, or were ended because of it.
    victims: list[str]


def explain(run: Run, status: Status, pods: list[PodState]) -> FailureReport:
    failed = sorted(
        ((ended.finished_at, pod, container, ended) for pod, container, ended in _failures(pods)),
        key=lambda failure: failure[0],
    )
    if not failed:
        return FailureReport(None, [])
    known = status.culprit
    chosen = failed[0]
    for failure in failed:
        pod = failure[1]
        if known and (pod.task, pod.index, pod.attempt) == (known.task, known.index, known.attempt):
            chosen = failure
            break
    _, pod, container, ended = chosen
    victims = [other for other in pods if other.uid != pod.uid and _suffered(other, ended, pod)]
    return FailureReport(_culprit(run, pod, container, ended), [_name(victim) for victim in victims])


def _failures(pods: list[PodState]) -> list[tuple[PodState, ContainerState, Ended]]:
    """Of the last version: who failed by itself, not because it was ended."""
    found = []
    newest = max((pod.version for pod in pods), default=0)
    for pod in pods:
        first = pod.first_failure()
        if pod.version != newest or first is None or pod.phase != "Failed":
            continue
        if not first[1].stopped:
            found.append((pod, *first))
    return found


def _suffered(pod: PodState, ended: Ended, culprit: PodState) -> bool:
    if pod.version != culprit.version or pod.phase == "Succeeded":
        return False
    return pod.finished_at is None or pod.finished_at >= ended.finished_at


def _culprit(run: Run, pod: PodState, container: ContainerState, ended: Ended) -> Culprit:
    restart = container.restarts if container.ended is ended else max(0, container.restarts - 1)
    folder = run.pod_folder(pod.name, pod.attempt)
    lines = last_lines(os.path.join(folder, f"{container.name}.{restart}.err"), LAST_LINES)
    if not lines:
        lines = last_lines(os.path.join(folder, f"{container.name}.{restart}.out"), LAST_LINES)
    frame, exception = last_frame(lines)
    return Culprit(
        pod=pod.name, task=pod.task, index=pod.index, rank=pod.rank, attempt=pod.attempt,
        container=container.name, exit_code=ended.exit_code, reason=ended.reason,
        signal=_signal_name(ended.signal), message=ended.message or pod.message, finished_at=ended.finished_at,
        frame=frame, exception=exception, stderr=lines,
    )  # fmt: skip


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
    return [line.rsplit("\r", 1)[-1] for line in text.splitlines()][-count:]


def last_frame(lines: list[str]) -> tuple[str | None, str | None]:
    """The innermost frame of the last traceback and the exception's own line."""
    frame = exception = None
    for line in lines:
        match = _FRAME.match(line)
        if match:
            where = f"{match[1]}:{match[2]}"
            frame, exception = (f"{where} in {match[3]}" if match[3] else where), None
        elif frame and exception is None and line and not line.startswith((" ", "\t")):
            exception = line
    return frame, exception


def _signal_name(number: int | None) -> str | None:
    if number is None:
        return None
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _name(pod: PodState) -> str:
    name = f"{pod.task}-{pod.index}"
    return name if pod.rank is None else f"rank {pod.rank} ({name})"
