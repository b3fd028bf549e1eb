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
from vcjob.diagnosis.traceback_text import (
    LAUNCHER_ERRORS,
    Traceback,
    before_last_traceback,
    last_line,
    last_lines,
    last_traceback,
    lines_by_rank,
    torchrun_root_cause,
)

#: What torch's communication says when another rank has gone. The words alone prove nothing: a program may use the
#: network itself, so they count only where torch raised the error or no traceback shows who did.
_PEER = re.compile(
    r"connection (?:closed|reset|refused|aborted)|broken pipe|closed by peer|socket (?:timeout|closed)"
    r"|remote (?:process|error)|ncclRemoteError|ncclSystemError|Timed out waiting|timed ?out|wait timeout|watchdog"
    r"|connectFullMesh|store->get|failed to recv|barrier timeout|communicator was aborted|Connection was likely closed"
    r"|failed to pass monitoredBarrier|taking the entire process down",
    re.IGNORECASE,
)
#: Of the rank itself, although nccl also says what it says of a peer.
_OF_ITSELF = re.compile(r"shared memory segment|Cuda failure|out of memory")
_TORCH = re.compile(
    r"gloo|nccl|NCCL|c10d|TCPStore|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError|torch\.distributed"
)
#: What a program raises because it is being ended.
_STOPPED = (*LAUNCHER_ERRORS, "KeyboardInterrupt", "SystemExit")


class Suspect:
    """Reads one failed pod. Made by the rules, for the length of one diagnosis."""

    def __init__(self, pod: PodObservation, end: End) -> None:
        self.pod = pod
        self.end = end

    @cached_property
    def lines(self) -> tuple[str, ...]:
        return self.pod.stderr or self.pod.stdout

    @cached_property
    def _torchrun(self) -> tuple[str, Traceback | None]:
        """Below torchrun: which of its workers failed first, and that worker's traceback."""
        root = torchrun_root_cause(self.lines)
        if root is None:
            return "", None
        by_rank = lines_by_rank(self.lines)
        found = {rank: last for rank, lines in by_rank.items() if (last := last_traceback(lines)) is not None}
        # A worker that raised before the process group existed has no prefix.
        rank = root.rank if root.rank in found else None
        if rank not in found or _complains(found[rank]):
            # torchrun saw a victim first: another worker raised an error of its own and was slower to exit.
            rank = next((each for each, last in found.items() if not _complains(last)), rank)
        if rank is None or rank == root.rank:
            return f"local rank {root.local_rank}, global rank {root.rank}", found.get(rank)
        return f"global rank {rank}", found[rank]

    @property
    def worker(self) -> str:
        """Below torchrun, the worker in the pod that failed: "local rank 1, global rank 3"; else empty."""
        return self._torchrun[0]

    @property
    def worker_signal(self) -> int | None:
        """The signal that ended that worker, where torchrun reports one."""
        root = torchrun_root_cause(self.lines)
        return -root.exit_code if root is not None and root.exit_code < 0 else None

    @cached_property
    def traceback(self) -> Traceback | None:
        found = self._torchrun[1] or last_traceback(self.lines)
        return None if self.worker and found is not None and found.type in LAUNCHER_ERRORS else found

    @cached_property
    def last_line(self) -> str:
        if self.worker and self.traceback is None:
            return last_line(before_last_traceback(self.lines))  # what its worker said, not torchrun's table
        return last_line(self.lines)

    @property
    def reason(self) -> str:
        """What it said, in one line."""
        return self.traceback.exception if self.traceback else self.last_line

    @cached_property
    def is_complaint(self) -> bool:
        """Whether its error is only that a peer has gone."""
        found = self.traceback
        if found is None:
            return _PEER.search(self.last_line) is not None and _TORCH.search(self.last_line) is not None
        return _complains(found)

    @property
    def is_about_communication(self) -> bool:
        """Whether torch's communication raised its error, about a peer or about the call itself."""
        found = self.traceback
        if found is None:
            return _TORCH.search(self.last_line) is not None
        return self.is_complaint or found.in_distributed or _TORCH.search(found.text) is not None

    @property
    def moment(self) -> float:
        """When it failed: when its traceback was written, else when it ended."""
        ended = self.end.finished_at if self.end.finished_at is not None else float("inf")
        if self.traceback is not None and self.pod.error_at is not None:
            return min(ended, self.pod.error_at)
        return ended

    def evidence(self, count: int = 4) -> tuple[Evidence, ...]:
        """The lines that show the cause: the traceback's end, or the last lines."""
        source = f"{self.pod.name}, {'stderr' if self.pod.stderr else 'output'}"
        if self.traceback is not None:
            own, inner = self.traceback.own_frame, self.traceback.frames[-1:]
            places = [own] if own else []
            places += [frame for frame in inner if frame != own]
            return (
                Evidence(source, self.traceback.exception),
                *(Evidence(source, f"at {place}") for place in places),
            )
        said = tuple(Evidence(source, line) for line in last_lines(self.lines, count))
        return said or ((Evidence("container status", self.end.message),) if self.end.message else ())

    @property
    def failed_itself(self) -> bool:
        """It ended badly on its own, or it had raised an error of its own before it was ended and was slow to exit."""
        if not self.end.stopped:
            return True
        if self.traceback is None or self.traceback.type in _STOPPED or self.is_complaint:
            return False
        stopped_at, error_at = self.end.stopped_at, self.pod.error_at
        return stopped_at is None or error_at is None or error_at <= stopped_at


def _complains(found: Traceback) -> bool:
    if not _PEER.search(found.text) or _OF_ITSELF.search(found.text):
        return False
    # The operating system's errors have types of their own; only torch says such things in a RuntimeError.
    return found.type == "RuntimeError" or found.in_distributed or _TORCH.search(found.text) is not None


def suspects(observation: Observation) -> list[Suspect]:
    """Failed pods, the one that failed first at the front."""
    ended = [
        Suspect(pod, pod.end) for pod in observation.pods if pod.end is not None and pod.end.exit_code != 0
    ]

    def order(each: Suspect) -> tuple[bool, float, bool, float]:
        elsewhere = (each.pod.task, each.pod.index) != observation.recorded
        return each.is_complaint, round(each.moment, 2), elsewhere, each.moment

    return sorted((each for each in ended if each.failed_itself), key=order)
