"""Which rank waits for which, over the collectives of all process groups and the sends and receives between two ranks.

A collective ends when every member of its group has called it, so a rank that waits in one waits for all members that
have not. Several may be under way; a rank can go on when any of them can end, because nothing says in which it waits.
So ranks that wait for each other in a circle do so for certain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from vcjob.diagnosis.observation import Collective, Observation, RankState
from vcjob.diagnosis.rules.collectives import waits

#: With so many newer entries in its report, a group that is missing there may have been overwritten.
_OVERWRITTEN = 50


class Group(NamedTuple):
    """One process group: the collectives that its members have issued, oldest first. A rank without a report is missing.

    `process_groups` makes these from the reports of all ranks; `mismatch` compares what the members have called.
    """

    name: str
    members: tuple[int, ...]
    issued: dict[int, list[Collective]]


class Edge(NamedTuple):
    """`rank` waits for `peer` since that time: in a collective of `group`, or in a send or receive (None).

    A finding about a circle of ranks quotes these.
    """

    rank: int
    peer: int
    since: float
    name: str
    sequence: int = 0
    group: Group | None = None
    #: The ranks that wait in the same call.
    ranks: tuple[int, ...] = ()


class _Calls:
    """The collectives of one group in which ranks wait. `released` is asked whenever another rank may go on."""

    def __init__(self, last: dict[int, float], pending: dict[int, Collective]) -> None:
        self._missing = sorted(last, key=lambda rank: last[rank])
        self._came = 0
        self._pending = sorted(pending, key=lambda rank: -pending[rank].sequence)
        self._sequence = {rank: call.sequence for rank, call in pending.items()}
        self._last = last

    @property
    def never_comes(self) -> int | None:
        """The rank that is furthest behind of those that cannot go on."""
        return self._missing[self._came] if self._came < len(self._missing) else None

    def released(self, able: set[int]) -> list[int]:
        """Ranks whose collective can end, now that these ranks can go on. Each is listed once."""
        while self._came < len(self._missing) and self._missing[self._came] in able:
            self._came += 1
        never = self.never_comes
        bound = float("inf") if never is None else self._last[never]
        found = []
        while self._pending and self._sequence[self._pending[-1]] <= bound:
            found.append(self._pending.pop())
        return found


class WaitGraph:
    """All ranks of a running job at one moment. Linear in the size of the reports, apart from sorting."""

    def __init__(self, observation: Observation) -> None:
        self.states = {state.rank: state for state in observation.rank_states}
        self.gone = waits.ended_ranks(observation)
        self.groups = process_groups(observation.rank_states)
        self._transfers = {
            rank: wait
            for rank, state in self.states.items()
            if (wait := waits.transfer_of(state)) is not None and wait.peer is not None
        }
        self.pending = self._pending_calls(observation)
        #: For each group with such calls, the newest collective of each member.
        self.newest = [
            {rank: self._last(group, rank) for rank in group.members} if pending else {}
            for group, pending in zip(self.groups, self.pending, strict=True)
        ]
        held = frozenset(self._transfers).union(*self.pending)
        self._waiting = {rank for rank in held if _waits(self.states[rank], observation)}

    def _last(self, group: Group, rank: int) -> float:
        """The newest collective that the rank has issued in the group; infinite where that is not known."""
        issued = group.issued.get(rank)
        if issued:
            return issued[-1].sequence
        if rank in self.gone:
            return 0
        state = self.states.get(rank)
        if state is None or (rank not in group.issued and group.name in state.groups):
            return float("inf")
        return 0 if len(state.collectives) + len(state.transfers) < _OVERWRITTEN else float("inf")

    def held_by(self, never: frozenset[int]) -> set[int]:
        """The waiting ranks that cannot go on if these never do, and that otherwise could."""
        return self._unable(never)[0] - self.without_end() - never

    def without_end(self) -> set[int]:
        """The ranks that can never go on: they wait for each other, or for ranks that do."""
        return self._unable(frozenset())[0]

    def circle(self) -> list[Edge]:
        """Ranks each of which waits for the next, and the last one for the first; empty where there are none."""
        unable, calls = self._unable(frozenset())
        path: dict[int, Edge] = {}
        rank = min(unable, default=None)
        while rank is not None and rank not in path:
            path[rank] = self._edge(rank, calls)
            rank = path[rank].peer
        ranks = list(path)
        return [] if rank is None else [path[each] for each in ranks[ranks.index(rank) :]]

    def _pending_calls(self, observation: Observation) -> list[dict[int, Collective]]:
        """For each group, the collective in which each rank has long been. One that is in a transfer waits in that."""
        calls = {
            rank: waits.pending_calls(state)
            for rank, state in self.states.items()
            if state.call_since is None
        }
        return [
            {
                rank: call
                for rank in group.issued
                if (call := calls.get(rank, {}).get(group.name)) is not None
                and waits.is_long(call.issued_at, observation, waits.STUCK)
            }
            for group in self.groups
        ]

    def _unable(self, never: frozenset[int]) -> tuple[set[int], list[_Calls]]:
        calls = [_Calls(*each) for each in zip(self.newest, self.pending, strict=True)]
        groups: dict[int, list[_Calls]] = {}
        for group, each in zip(self.groups, calls, strict=True):
            for rank in group.members:
                groups.setdefault(rank, []).append(each)
        ends: dict[int, list[int]] = {}
        for rank, wait in self._transfers.items():
            ends.setdefault(wait.peer or 0, []).append(rank)
        new = [*{*groups, *ends, *self.states} - self._waiting - never]
        able = set(new)
        new += [rank for each in calls for rank in each.released(able)]
        while new:
            rank = new.pop()
            if rank in never:
                continue
            able.add(rank)
            new += ends.pop(rank, [])
            for each in groups.pop(rank, []):
                new += each.released(able)
        return self._waiting - able, calls

    def _edge(self, rank: int, calls: Sequence[_Calls]) -> Edge:
        wait = self._transfers.get(rank)
        if wait is not None:
            return Edge(rank, wait.peer or 0, wait.since, wait.name, ranks=(rank,))
        number = next(number for number, pending in enumerate(self.pending) if rank in pending)
        call, peer = self.pending[number][rank], calls[number].never_comes
        assert peer is not None  # otherwise its collective could end
        same = sorted(each for each, its in self.pending[number].items() if its.sequence == call.sequence)
        return Edge(rank, peer, call.issued_at, call.name, call.sequence, self.groups[number], tuple(same))


def process_groups(states: Sequence[RankState]) -> list[Group]:
    """The process groups with more than one member, the largest first. Groups of other ranks may have the same name."""
    found: dict[tuple[str, int, int], Group] = {}
    for state in states:
        issued: dict[str, list[Collective]] = {}
        for call in state.collectives:
            issued.setdefault(call.group, []).append(call)
        for name, members in state.groups.items():
            if len(members) > 1:
                group = found.setdefault((name, members[0], len(members)), Group(name, members, {}))
                group.issued[state.rank] = issued.get(name, [])
    return sorted(found.values(), key=lambda group: (-len(group.members), group.name, group.members[0]))


def _waits(state: RankState, observation: Observation) -> bool:
    idle = waits.is_stuck(state, observation)
    return not state.paused and (idle or waits.stays_in_call(state, observation))
