"""Ranks that wait for a collective that another rank has not reached, and ranks that wait for each other.

The order in which every rank issued its collectives comes from PyTorch's flight recorder. That others wait for a rank
proves nothing: it may compile, load or download. It is named only if it has shown no sign of work for most of that time.
With several process groups, a rank may be late because it waits itself: then the one for which it waits is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from vcjob.diagnosis.finding import Confidence, Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation, RankState
from vcjob.diagnosis.rules.collectives.wait_graph import Edge, Group, WaitGraph
from vcjob.diagnosis.rules.collectives.waits import (
    NOT_COLLECTIVE,
    STUCK,
    is_blocked,
    is_long,
    is_stuck,
    rank_stack,
    stays_in_call,
    transfer_of,
)
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.stacks import StackReport
from vcjob.diagnosis.suspect import suspects
from vcjob.wellknown import causes

_TRANSFERS = frozenset({"send", "recv", "send_object_list", "recv_object_list"})
_ON_HANG = "with `--on-hang restart` or `fail` a hung job is restarted or ended"


class _Late(NamedTuple):
    """A collective in which ranks wait, the members that have not called it, and those of them that are to blame."""

    group: Group
    name: str
    sequence: int
    since: float
    behind: list[int]
    blamed: list[int]
    looping: bool


def rank_behind(observation: Observation) -> Iterator[Finding]:
    """Ranks wait in a collective, and another rank never reached it and does nothing; or they wait for each other."""
    if observation.phase != "Running":
        return
    graph = WaitGraph(observation)
    late = [each for number in range(len(graph.groups)) if (each := _late(observation, graph, number))]
    # Of several collectives, the one in which ranks have waited longest is the next one of the rank that is late.
    late.sort(key=lambda each: (each.looping, each.since))
    certain = bool(late) and not late[0].looping
    circle = None if certain else _circle(observation, graph)
    if circle is not None:
        yield circle
    elif late:
        yield _behind(observation, graph, late[0])


def not_in_the_collective(observation: Observation) -> Iterator[Finding]:
    """Without the flight recorder: no rank does anything, and the stacks of some show a collective and others do not."""
    states = observation.rank_states
    if observation.phase != "Running" or len(states) < 2 or any(state.collectives for state in states):
        return
    if not all(state.stack and is_stuck(state, observation) for state in states):
        return
    waits = {state.rank: rank_stack(state).waits_in for state in states}
    waiting = [rank for rank, name in waits.items() if name not in NOT_COLLECTIVE]
    names = {waits[rank] for rank in waiting}
    if names & _TRANSFERS:
        return  # their other ends are not known, and one call looks like the next
    behind = [rank for rank, name in waits.items() if name in NOT_COLLECTIVE]
    since = max(state.idle_since or observation.now for state in states)
    if len(names) != 1 or not behind or observation.now - since < observation.hang_after:
        return
    yield Finding(
        causes.RANK_BEHIND,
        f"{rank_names(behind)} {'is' if len(behind) == 1 else 'are'} not in {names.pop()}; "
        f"{_others(waiting, len(waits), behind)} waited in it for {observation.now - since:.0f} s",
        named_ranks(behind, waiting),
        stack_evidence({state.rank: state for state in states}, [*behind[:4], *waiting[:1]]),
        hint_for(observation, next(state for state in states if state.rank == behind[0]), looping=False),
        "medium",
    )


def recorded(observation: Observation) -> Iterator[Finding]:
    """What the supervisor found while the job ran; of a failed job only where no rank failed on its own."""
    if observation.phase == "Running":
        yield from observation.hang_findings
    elif observation.phase == "Failed" and observation.hang_findings:
        failed = suspects(observation)
        if not failed or failed[0].is_about_communication:
            yield from (
                _afterwards(each) for each in observation.hang_findings if each.cause != causes.STRAGGLER
            )


def _afterwards(finding: Finding) -> Finding:
    """The finding without the advice that needs ranks that still run."""
    parts = finding.hint.split("; ")
    kept = [part for part in parts if "`vcjob stacks" not in part and "`--on-hang" not in part]
    return msgspec.structs.replace(finding, hint="; ".join(kept))


def _late(observation: Observation, graph: WaitGraph, number: int) -> _Late | None:
    """The first collective of a group in which ranks have waited for long, if those that do not come do nothing."""
    pending = [call for call in graph.pending[number].values() if is_long(call.issued_at, observation)]
    if not pending:
        return None
    first = min(pending, key=lambda call: call.sequence)
    behind = [rank for rank, last in graph.newest[number].items() if last < first.sequence]
    running = [graph.states[rank] for rank in behind if rank in graph.states]
    alone = [state for state in running if not _waits_elsewhere(state, observation)]
    # Before its first collective a busy rank prepares: it loads or compiles.
    stuck = [each.rank for each in alone if is_stuck(each, observation, loops=first.sequence > 1)]
    if len(stuck) < len(alone) or any(state.paused for state in running):
        return None  # one of them works, and the others may wait for it by other means
    left = behind if graph.gone.issuperset(behind) else []
    if not stuck and not left:
        return None
    since = max(call.issued_at for call in pending if call.sequence == first.sequence)
    looping = any(state.idle_since is None for state in alone)
    return _Late(graph.groups[number], first.name, first.sequence, since, behind, stuck or left, looping)


def _behind(observation: Observation, graph: WaitGraph, late: _Late) -> Finding:
    missing = frozenset(late.behind)
    others = [rank for rank in late.group.members if rank not in missing]
    held = graph.held_by(frozenset(late.blamed))  # also those that wait for the others, in other groups
    victims = sorted(held.union(others))
    seconds = observation.now - late.since
    waited = f"{_others(others, len(late.group.members), late.behind)} waited in it for {seconds:.0f} s"
    place = f"{late.name} #{late.sequence}{of_group(late.group)}"
    if late.blamed[0] in graph.gone:
        return Finding(
            causes.RANK_EXITED_EARLY,
            f"{rank_names(late.blamed)} ended with exit code 0 before {place}; {waited}",
            named_ranks(late.blamed, victims),
            stack_evidence(graph.states, others[:1]),
            "make every rank run the same number of steps, and end with a barrier",
            "high",
        )
    confidence: Confidence = "medium" if late.looping else "high"
    return Finding(
        causes.RANK_BEHIND,
        f"{rank_names(late.blamed)} never reached {place}; {waited}",
        named_ranks(late.blamed, victims),
        stack_evidence(graph.states, [*late.blamed[:4], *others[:1]]),
        hint_for(observation, graph.states[late.blamed[0]], looping=late.looping),
        confidence,
    )


def _waits_elsewhere(state: RankState, observation: Observation) -> bool:
    """Whether the rank waits in a transfer, also one that any rank may send, or in another collective."""
    wait = transfer_of(state)
    in_transfer = wait is not None and (
        state.call_since is not None or is_long(wait.since, observation, STUCK)
    )
    return in_transfer or is_blocked(state, observation)


def _circle(observation: Observation, graph: WaitGraph) -> Finding | None:
    """Ranks that wait for each other, some of them in a collective; `transfers` finds those that only send and receive."""
    edges = graph.circle()
    if not any(each.group for each in edges) or not any(is_long(each.since, observation) for each in edges):
        return None
    blamed = sorted(each.rank for each in edges)
    if len(edges) == 2:
        # The call of most ranks first; of two ranks, the collective.
        usual, odd = sorted(edges, key=lambda each: (-len(each.ranks), each.group is None, each.rank))
        peer = "" if odd.group else f" for rank {odd.peer}"
        message = (
            f"{rank_names(usual.ranks)} {_wait(usual.ranks)} in {_call(usual)}, while "
            f"{rank_names(odd.ranks)} {_wait(odd.ranks)} in {_call(odd)}{peer}: they wait for each other"
        )
        most = usual.group is not None and 2 * len(usual.ranks) > len(usual.group.members)
        blamed = list(odd.ranks) if most else sorted({*usual.ranks, *odd.ranks})
    else:
        ways = [f"rank {each.rank} in {_call(each)} for rank {each.peer}" for each in edges[:4]]
        seconds = observation.now - max(each.since for each in edges)
        message = f"ranks have waited for each other for {seconds:.0f} s: {', '.join(ways)}"
    victims = graph.without_end().difference(blamed)
    inside = all(stays_in_call(graph.states[each.rank], observation) for each in edges)
    return Finding(
        causes.COLLECTIVE_MISMATCH,
        message,
        named_ranks(blamed, sorted(victims)),
        stack_evidence(graph.states, [each.rank for each in edges[:4]]),
        "every rank must call the collectives of its groups, its sends and its receives in the same order",
        "high" if inside else "medium",
    )


def _call(edge: Edge) -> str:
    return edge.name if edge.group is None else f"{edge.name} #{edge.sequence}{of_group(edge.group)}"


def hint_for(observation: Observation, state: RankState, *, looping: bool) -> str:
    if rank_stack(state).waits_in == "DataLoader":
        return (
            "its DataLoader delivers nothing: try num_workers=0, or set timeout= to get an error; " + _ON_HANG
        )
    if looping:
        return f"it runs Python code without a pause: see the line with `vcjob stacks {observation.reference}`; {_ON_HANG}"
    return f"see what it does with `vcjob stacks {observation.reference}`; {_ON_HANG}"


def stack_evidence(states: dict[int, RankState], ranks: Sequence[int]) -> tuple[Evidence, ...]:
    stacks = StackReport(
        tuple(rank_stack(states[rank]) for rank in ranks if rank in states and states[rank].stack)
    )
    return tuple(Evidence("stack", str(group)) for group in stacks.groups())


def named_ranks(first: Sequence[int], victims: Sequence[int]) -> Ranks:
    return Ranks(tuple(f"rank {rank}" for rank in first), tuple(f"rank {rank}" for rank in victims))


def rank_names(ranks: Sequence[int]) -> str:
    return joined([f"rank {rank}" for rank in ranks])


def _others(others: Sequence[int], members: int, behind: Sequence[int]) -> str:
    if len(others) == 1:
        return f"{rank_names(others)} has"
    everyone = len(others) + len(behind) == members
    return "all others have" if everyone else f"{rank_names(others)} have"


def _wait(ranks: Sequence[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def of_group(group: Group) -> str:
    return "" if group.name == "0" else f" of group {group.name}"
