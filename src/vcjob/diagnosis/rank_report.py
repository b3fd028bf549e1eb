"""What the agent in a rank reports (`vcjob.rank_agent`): its collectives and transfers, its stack, and since when it
does nothing.

Both backends use it: one reads files of this machine, the other files of pods. Pure. A report that is damaged, too old a
format or of no rank is None.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

import msgspec

from vcjob.diagnosis.observation import Collective, Frame, RankState, Transfer

#: Entries per report that are compared.
_NEWEST = 2000
#: Collectives to which every rank must give tensors of the same size. In others, sizes may differ.
_SAME_SIZES = frozenset({"all_reduce", "broadcast", "reduce"})
#: The other end of a transfer.
_OTHER_END = re.compile(r"\d{1,9}(?:->|<-)(\d{1,9})")


class _Entry(msgspec.Struct):
    collective_seq_id: int
    profiling_name: str
    process_group: list[str]
    input_sizes: list[Any] = []
    input_dtypes: list[Any] = []
    time_created_ns: int = 0
    state: str = ""
    retired: bool = False
    is_p2p: bool = False


class _Report(msgspec.Struct):
    pid: int
    rank: int | None
    at: float
    ended: bool = False
    stack_since: float | None = None
    loops_since: float | None = None
    idle_since: float | None = None
    quiet_since: float | None = None
    groups: dict[str, tuple[int, ...]] = {}
    stack: list[tuple[str, str, int]] = []
    call_since: float | None = None
    peer: int | None = None
    imported_at: float | None = None
    first_call_at: float | None = None
    entries: list[_Entry] = []


_REPORT = msgspec.json.Decoder(_Report)


class RankReport(NamedTuple):
    """One report: the rank, its process, and since when its main thread has been in the same functions, has run Python
    code without a pause, has done nothing, and has had no effect but its CPU time."""

    pid: int
    state: RankState
    stack_since: float | None = None
    loops_since: float | None = None
    idle_since: float | None = None
    quiet_since: float | None = None
    at: float = 0.0
    #: When its imports ended, and when it issued its first collective.
    imported_at: float | None = None
    first_call_at: float | None = None

    def state_with(self, idle_since: float | None, quiet_since: float | None, *, paused: bool) -> RankState:
        """The state of the rank, with what its process has been seen to do."""
        state = self.state
        state.paused = paused
        state.idle_since = latest(idle_since, self.stack_since or 0.0)
        if state.idle_since is None:
            state.looping_since = latest(quiet_since, self.loops_since)
        return state


def latest(first: float | None, second: float | None) -> float | None:
    """The later of two moments; None where one of them is."""
    return None if first is None or second is None else max(first, second)


def decode_report(text: bytes, shift: float = 0.0) -> RankReport | None:
    """`shift` is added to every time: how far the clock of the caller is ahead of the rank's."""
    try:
        report = _REPORT.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if report.rank is None:
        return None

    def here(moment: float | None) -> float | None:
        return None if moment is None else moment + shift

    newest = report.entries[-_NEWEST:]
    state = RankState(
        rank=report.rank,
        collectives=tuple(_collective(entry, shift) for entry in newest if not entry.is_p2p),
        groups=report.groups,
        transfers=tuple(_transfer(entry, report.groups, shift) for entry in newest if entry.is_p2p),
        call_since=here(report.call_since),
        peer=report.peer,
        stack=tuple(Frame(*frame) for frame in report.stack),
        stack_since=here(report.stack_since),
        ended=report.ended,
    )

    return RankReport(
        report.pid,
        state,
        here(report.stack_since),
        here(report.loops_since),
        here(report.idle_since),
        here(report.quiet_since),
        report.at + shift,
        here(report.imported_at),
        here(report.first_call_at),
    )


def _collective(entry: _Entry, shift: float) -> Collective:
    name = entry.profiling_name.rpartition(":")[2]
    return Collective(
        sequence=entry.collective_seq_id,
        name=name,
        group=entry.process_group[0] if entry.process_group else "0",
        sizes=_sizes(entry) if name in _SAME_SIZES else "",
        issued_at=entry.time_created_ns / 1e9 + shift,
        done=entry.retired or entry.state == "completed",
    )


def _transfer(entry: _Entry, groups: dict[str, tuple[int, ...]], shift: float) -> Transfer:
    """The recorder names both ends by their ranks in the group: "nccl:send 1->2", "nccl:recv 3<-0", "recv 3<-?"."""
    name, _, ends = entry.profiling_name.rpartition(":")[2].partition(" ")
    group = entry.process_group[0] if entry.process_group else "0"
    members = groups.get(group, ())
    peer = _OTHER_END.fullmatch(ends)
    place = int(peer[1]) if peer is not None else len(members)
    return Transfer(
        name=name,
        peer=members[place] if place < len(members) else None,
        group=group,
        issued_at=entry.time_created_ns / 1e9 + shift,
        done=entry.retired or entry.state == "completed",
    )


def _sizes(entry: _Entry) -> str:
    """Elements and types, not shapes: ranks may see the same data in different shapes."""
    try:
        counts = [math.prod(size) for size in entry.input_sizes]
    except TypeError:
        return ""
    kinds = [*entry.input_dtypes, *[""] * len(counts)]
    return ", ".join(f"{count} {kind}".strip() for count, kind in zip(counts, kinds, strict=False))
