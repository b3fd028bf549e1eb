"""The watchdog of torch's nccl process group, which aborts a rank whose collective did not end in time.

`compared` puts side by side what the watchdogs of all ranks printed: the rank that never called the collective in which
the others waited, or that waited in another one, is the cause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vcjob.diagnosis.finding import Confidence, Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.suspect import Suspect
from vcjob.diagnosis.text.prefixes import lines_by_rank
from vcjob.wellknown import causes

_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w{1,60})(?:, NumelIn=(\d{1,18}))?"
)
_RAN_FOR = re.compile(r"ran for (\d{1,18}) milliseconds")
_GROUP = re.compile(r"\[PG ID \d{1,9} PG GUID (\S{1,100}) Rank \d{1,9}\]")
_LAST = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,18})")
#: Printed by a rank whose watchdog is stuck: the other ranks wait for it in vain.
_STUCK = re.compile(
    r"ProcessGroupNCCL's watchdog got stuck|ProcessGroupNCCL watchdog hang|Heartbeat monitor timed out"
)
#: Between two ranks: their numbers say nothing about other ranks.
_BETWEEN_TWO = frozenset({"SEND", "RECV", "COALESCED", "UNKNOWN"})
#: Every rank has the same number of elements.
_SAME_SIZE = frozenset({"ALLREDUCE", "BROADCAST", "REDUCE", "_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"})
_COMPARE = (
    "another rank did not call the same collective with the same size, or was slower than the timeout of the "
    "process group: compare the calls of all ranks"
)


class _Report(NamedTuple):
    """One rank: the collective that timed out, if one did, and the newest that it called in the same group."""

    name: str
    pod: str
    line: str
    group: str
    sequence: int | None
    operation: str
    elements: str
    seconds: int
    last: int | None

    @property
    def call(self) -> tuple[int, str, str]:
        """What is the same on all ranks of a group that call the same collectives."""
        return self.sequence or 0, self.operation, self.elements if self.operation in _SAME_SIZE else ""

    def __str__(self) -> str:
        size = f" of {self.elements} elements" if self.elements else ""
        return f"{self.operation.lower()} #{self.sequence}{size}"


def compared(observation: Observation) -> Finding | None:
    """What the watchdogs of all ranks show together; None where none has printed a timeout."""
    reports = [report for pod in observation.pods for report in _reports(pod)]
    waited = [report for report in reports if report.sequence is not None]
    if not waited:
        return None
    first = min(waited, key=lambda report: report.sequence or 0)
    comparable = (
        len({report.group for report in waited}) == 1
        and not {each.operation for each in waited} & _BETWEEN_TWO
    )
    behind = [
        report
        for report in reports
        if report.sequence is None
        and report.group == first.group
        and (report.last or 0) < (first.sequence or 0)
    ]
    if comparable and behind:
        return _finding(
            causes.COLLECTIVE_TIMEOUT,
            f"{_names(behind)} never called {first}; {_names(waited)} waited {first.seconds} s in it",
            behind,
            waited,
            hint="see what it did instead in its output, or with `vcjob stacks` while the job runs",
            confidence="high",
        )
    kinds: dict[tuple[int, str, str], list[_Report]] = {}
    for report in waited:
        kinds.setdefault(report.call, []).append(report)
    if comparable and len(kinds) > 1:
        # Most ranks are right; of two, the one that is further.
        usual = max(kinds, key=lambda kind: (len(kinds[kind]), kind[0]))
        odd = [report for report in waited if report.call != usual]
        certain = len(kinds[usual]) > len(odd)
        return _finding(
            causes.COLLECTIVE_MISMATCH,
            f"{_names(odd)} waited in {odd[0]} where {_names(kinds[usual])} waited in {kinds[usual][0]}",
            odd,
            kinds[usual],
            hint="every rank must call the same collectives in the same order with the same sizes",
            confidence="high" if certain else "medium",
        )
    return _finding(
        causes.COLLECTIVE_TIMEOUT,
        f"{_names(waited)} waited {first.seconds} s in {first}, and torch's watchdog ended "
        f"{'it' if len(waited) == 1 else 'them'}",
        [],
        waited,
        hint=_COMPARE,
        confidence="medium",
    )


def collective_timeout(suspect: Suspect) -> Verdict | None:
    """Needs what the rank printed itself: the abort says nothing about the collective."""
    report = next((report for report in _reports(suspect.pod) if report.sequence is not None), None)
    if report is None:
        return None
    return Verdict(
        causes.COLLECTIVE_TIMEOUT,
        f"waited {report.seconds} s in {report}, and torch's watchdog ended it",
        _COMPARE,
    )


def heartbeat(suspect: Suspect) -> Verdict | None:
    """The monitor of the watchdog ended the process, because the watchdog itself made no progress."""
    if suspect.traceback is not None or not any(map(_STUCK.search, suspect.lines)):
        return None
    return Verdict(
        causes.COLLECTIVE_TIMEOUT,
        "was ended by torch's heartbeat monitor: a call of nccl or CUDA did not return",
        "another rank may have failed before, or a thread holds Python's lock in a CUDA call: see `vcjob stacks` while "
        "the job runs; TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC sets the time",
        "medium",
    )


def _reports(pod: PodObservation) -> Iterator[_Report]:
    said = [
        line
        for line in pod.stderr or pod.stdout
        if "Watchdog caught" in line or "enqueued work:" in line or "enqueued NCCL work:" in line
    ]
    by_rank = lines_by_rank(said)
    if len(by_rank) > 1:
        by_rank.pop(None, None)  # torch repeats them, without its prefix, when it ends the process
    for rank, lines in by_rank.items():
        timeouts = (
            (line, found, _RAN_FOR.search(line)) for line in lines if (found := _TIMEOUT.search(line))
        )
        line, timeout, ran_for = next(((*each,) for each in timeouts if each[2]), (lines[0], None, None))
        last = next(((line, found) for line in lines if (found := _LAST.search(line))), None)
        group = _GROUP.search(last[0]) if last else None
        one = len(by_rank) == 1 and rank in (None, pod.rank)
        yield _Report(
            pod.name if one else f"{pod.name} (global rank {rank})",
            pod.name,
            line,
            group[1] if group else "",
            int(timeout[1]) if timeout else None,
            timeout[2] if timeout else "",
            timeout[3] or "" if timeout else "",
            int(ran_for[1]) // 1000 if ran_for else 0,
            int(last[1][1]) if last else None,
        )


def _names(reports: Sequence[_Report]) -> str:
    return joined([report.name for report in reports])


def _finding(
    cause: str,
    message: str,
    first: Sequence[_Report],
    others: Sequence[_Report],
    *,
    hint: str,
    confidence: Confidence,
) -> Finding:
    named = tuple(dict.fromkeys(report.pod for report in first))
    victims = tuple(dict.fromkeys(report.pod for report in others if report.pod not in named))
    quoted = (*first[:2], *others[:1])
    evidence = tuple(Evidence(f"{report.name}, stderr", report.line) for report in quoted)
    return Finding(cause, message, Ranks(named, victims), evidence, hint, confidence)
