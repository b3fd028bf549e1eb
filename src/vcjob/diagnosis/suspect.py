"""`Suspect`: a rank that failed, with what its output says, and which of several failed first.

The first to end is not always the first to fail: a rank that raised an error may spend seconds in exit handlers, while
its peers notice the closed connection and are gone. So an error of a rank's own counts before a complaint about a
peer, and an earlier one before a later one.
"""

from __future__ import annotations

import re
from functools import cached_property

from vcjob.diagnosis.finding import Evidence
from vcjob.diagnosis.observation import End, Observation, PodObservation
from vcjob.diagnosis.traceback_text import Traceback, last_traceback, plain, tracebacks

#: What torch's communication says when another rank has gone. The words alone prove nothing: a program may use the
#: network itself, so they count only where torch raised the error or no traceback shows who did.
_PEER = re.compile(
    r"connection (?:closed|reset|refused|aborted)|broken pipe|closed by peer|socket (?:timeout|closed)"
    r"|remote (?:process|error)|ncclRemoteError|ncclSystemError|Timed out waiting|timed ?out|watchdog"
    r"|SignalException|connectFullMesh|store->get|failed to recv|barrier timeout",
    re.IGNORECASE,
)
_TORCH = re.compile(
    r"gloo|nccl|c10d|TCPStore|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError|torch\.distributed"
)
_LAUNCHER = ("ChildFailedError", "SignalException")


class Suspect:
    """Reads one failed pod. Made by the rules, for the length of one diagnosis."""

    def __init__(self, pod: PodObservation, end: End) -> None:
        self.pod = pod
        self.end = end

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return self.pod.stderr or self.pod.stdout

    @cached_property
    def traceback(self) -> Traceback | None:
        """The one that ended the program; a launcher's own is left out where the program printed one."""
        found = tracebacks(self.lines)
        own = [each for each in found if each.type not in _LAUNCHER]
        return own[-1] if own else last_traceback(self.lines)

    @cached_property
    def last_line(self) -> str:
        said = [plain(line).strip() for line in self.lines]
        return next((line for line in reversed(said) if line and not set(line) <= set("=-_ ")), "")

    @property
    def reason(self) -> str:
        """What it said, in one line."""
        return self.traceback.exception if self.traceback else self.last_line

    @property
    def is_complaint(self) -> bool:
        """Whether its error is only that a peer has gone."""
        found = self.traceback
        if found is None:
            return _PEER.search(self.last_line) is not None and _TORCH.search(self.last_line) is not None
        if not _PEER.search(found.text):
            return False
        return found.in_distributed or _TORCH.search(found.text) is not None

    @property
    def moment(self) -> float:
        """When it failed: when its traceback was written, else when it ended."""
        ended = self.end.finished_at if self.end.finished_at is not None else float("inf")
        if self.traceback is not None and self.pod.error_at is not None:
            return min(ended, self.pod.error_at)
        return ended

    def evidence(self, count: int = 4) -> tuple[Evidence, ...]:
        """The lines that show the cause: the traceback's end, or the last lines."""
        source = f"{self.pod.name}, {'stderr' if self.pod.stderr else 'stdout'}"
        if self.traceback is not None:
            own, inner = self.traceback.own_frame, self.traceback.frames[-1:]
            places = [own] if own else []
            places += [frame for frame in inner if frame != own]
            return (
                Evidence(source, self.traceback.exception),
                *(Evidence(source, f"at {place}") for place in places),
            )
        return tuple(Evidence(source, line) for line in self.lines[-count:] if line.strip())


def suspects(observation: Observation) -> list[Suspect]:
    """Failed pods, the one that failed first at the front."""
    found = [
        Suspect(pod, pod.end)
        for pod in observation.pods
        if pod.end is not None and pod.end.exit_code != 0 and (pod.failed or _had_failed_before(pod))
    ]
    return sorted(found, key=lambda each: (each.is_complaint, each.moment))


def _had_failed_before(pod: PodObservation) -> bool:
    """It was ended, but had raised an error of its own before: it was only slow to exit."""
    assert pod.end is not None
    suspect = Suspect(pod, pod.end)
    return (
        suspect.traceback is not None and suspect.traceback.type not in _LAUNCHER and not suspect.is_complaint
    )
