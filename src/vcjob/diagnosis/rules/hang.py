"""Ranks that wait for each other: one has not reached the collective in which the others wait, or they called different
collectives.

The order in which every rank issued its collectives comes from PyTorch's flight recorder. That others wait for a rank
proves nothing: it may compile, load or download. It is named only if it has shown no sign of work for most of that time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vcjob.diagnosis.finding import Confidence, Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Collective, Observation, RankState
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.stacks import RankStack, StackReport
from vcjob.diagnosis.suspect import suspects
from vcjob.wellknown import causes

#: A rank must have done nothing for this part of the time that the others have waited.
STUCK = 0.6
#: With so many newer entries in its report, a group that is missing there may have been overwritten.
_OVERWRITTEN = 50
#: What `RankStack.waits_in` may say of a rank that waits for no other rank, or still joins.
_NOT_COLLECTIVE = frozenset({"", "DataLoader", "synchronize", "init_process_group", "rendezvous"})
_TRANSFERS = frozenset({"send", "recv", "send_object_list", "recv_object_list"})
_ON_HANG = "with `--on-hang restart` or `fail` a hung job is restarted or ended"


class _Group(NamedTuple):
    """The collectives of one process group, by rank: oldest first."""

    name: str
    members: tuple[int, ...]
    issued: dict[int, list[Collective]]


def rank_behind(observation: Observation) -> Iterator[Finding]:
    """Ranks wait in a collective, and another rank never reached it and does nothing."""
    if observation.phase != "Running":
        return
    for group in _groups(observation.rank_states):
        found = _behind(observation, group)
        if found is not None:
            yield found
            return


def not_in_the_collective(observation: Observation) -> Iterator[Finding]:
    """Without the flight recorder: no rank does anything, and the stacks of some show a collective and others do not."""
    states = observation.rank_states
    if observation.phase != "Running" or len(states) < 2 or any(state.collectives for state in states):
        return
    if not all(state.stack and is_stuck(state, observation) for state in states):
        return
    waits = {state.rank: rank_stack(state).waits_in for state in states}
    waiting = [rank for rank, name in waits.items() if name not in _NOT_COLLECTIVE]
    names = {waits[rank] for rank in waiting}
    if names & _TRANSFERS:
        return  # their other ends are not known, and one call looks like the next
    behind = [rank for rank, name in waits.items() if name in _NOT_COLLECTIVE]
    since = max(state.idle_since or observation.now for state in states)
    if len(names) != 1 or not behind or observation.now - since < observation.hang_after:
        return
    yield Finding(
        causes.RANK_BEHIND,
        f"{_names(behind)} {'is' if len(behind) == 1 else 'are'} not in {names.pop()}; "
        f"{_others(waiting, _Group('0', tuple(waits), {}), behind)} waited in it for {observation.now - since:.0f} s",
        named_ranks(behind, waiting),
        stack_evidence({state.rank: state for state in states}, [*behind[:4], *waiting[:1]]),
        hint_for(next(state for state in states if state.rank == behind[0]), looping=False),
        "medium",
    )


def different_collectives(observation: Observation) -> Iterator[Finding]:
    """Ranks called different collectives at the same place of the same group, and wait since then."""
    if observation.phase == "Running":
        for found, calls in _mismatches(observation.rank_states):
            if any(_waits(call, observation, STUCK) for call in calls):
                yield found
                return


def first_mismatch(observation: Observation) -> Finding | None:
    """For a job that has failed in its communication: the first place where the ranks called different collectives."""
    return next((found for found, _ in _mismatches(observation.rank_states)), None)


def recorded(observation: Observation) -> Iterator[Finding]:
    """What the supervisor found while the job ran; of a failed job only where no rank failed on its own."""
    if observation.phase == "Running":
        yield from observation.hang_findings
    elif observation.phase == "Failed" and observation.hang_findings:
        failed = suspects(observation)
        if not failed or failed[0].is_about_communication:
            yield from (each for each in observation.hang_findings if each.cause != causes.STRAGGLER)


def _behind(observation: Observation, group: _Group) -> Finding | None:
    states = {state.rank: state for state in observation.rank_states}
    gone = ended_ranks(observation)
    waiting = {
        rank: next((call for call in calls if _waits(call, observation)), None)
        for rank, calls in group.issued.items()
    }
    pending = [call for call in waiting.values() if call is not None]
    if not pending:
        return None
    first = min(pending, key=lambda call: call.sequence)
    behind = [rank for rank in group.members if _last(group, states.get(rank), rank, gone) < first.sequence]
    if not behind or any(states[rank].paused for rank in behind if rank in states):
        return None
    left = [rank for rank in behind if rank in gone]
    elsewhere = [rank for rank in behind if rank in states and is_blocked(states[rank], observation)]
    transfers = [rank for rank in behind if rank in states and states[rank].peer is not None]
    alone = frozenset(behind) - gone - frozenset(elsewhere) - frozenset(transfers)
    # Before its first collective a busy rank prepares: it loads or compiles.
    stuck = [
        rank
        for rank in behind
        if rank in alone and is_stuck(states.get(rank), observation, loops=first.sequence > 1)
    ]
    missing = frozenset(behind)
    others = [rank for rank in group.members if rank not in missing]
    seconds = observation.now - max(call.issued_at for call in pending if call.sequence == first.sequence)
    waits = f"{_others(others, group, behind)} waited in it for {seconds:.0f} s"
    place = f"{first.name} #{first.sequence}{_of(group)}"
    if left:
        return Finding(
            causes.RANK_EXITED_EARLY,
            f"{_names(left)} ended with exit code 0 before {place}; {waits}",
            named_ranks(left, others),
            stack_evidence(states, others[:1]),
            "make every rank run the same number of steps, and end with a barrier",
            "high",
        )
    if stuck:
        looping = all(states[rank].idle_since is None for rank in stuck)
        confidence: Confidence = "medium" if looping else "high"
        return Finding(
            causes.RANK_BEHIND,
            f"{_names(stuck)} never reached {place}; {waits}",
            named_ranks(stuck, others),
            stack_evidence(states, [*stuck[:4], *others[:1]]),
            hint_for(states[stuck[0]], looping=looping),
            confidence,
        )
    reached = frozenset(others)
    crossing = [
        rank
        for rank in transfers
        if states[rank].peer in reached and is_stuck(states[rank], observation) and rank not in elsewhere
    ]
    if crossing and len(crossing) == len(behind):
        rank = crossing[0]
        return Finding(
            causes.COLLECTIVE_MISMATCH,
            f"{_names(others)} {_wait(others)} in {place}, while {_names([rank])} waits in "
            f"{states[rank].stack[0].function} for {_names([states[rank].peer or 0])}: they wait for each other",
            named_ranks(crossing, others),
            stack_evidence(states, [rank, *others[:1]]),
            "every send needs a receive, and every rank must call the same collectives",
            "high",
        )
    if elsewhere and len(elsewhere) == len(behind):
        rank = elsewhere[0]
        call = next(call for call in states[rank].collectives if _waits(call, observation, STUCK))
        return Finding(
            causes.COLLECTIVE_MISMATCH,
            f"{_names(others)} {_wait(others)} in {place}, while {_names([rank])} waits in {call.name} "
            f"#{call.sequence} of group {call.group}: they wait for each other",
            named_ranks(elsewhere, others),
            stack_evidence(states, [rank, *others[:1]]),
            "every rank must call the collectives of its groups in the same order",
            "high",
        )
    return None


def ended_ranks(observation: Observation) -> set[int]:
    """Ranks that have ended with exit code 0."""
    return {
        pod.rank
        for pod in observation.ranks()
        if pod.rank is not None and pod.end is not None and pod.end.exit_code == 0
    }


def _groups(states: Sequence[RankState]) -> list[_Group]:
    """The process groups with more than one member, the default group first."""
    members = {name: ranks for state in states for name, ranks in state.groups.items()}
    found = []
    for name in sorted(members, key=lambda name: (-len(members[name]), name)):
        inside = frozenset(members[name])
        issued = {
            state.rank: [call for call in state.collectives if call.group == name]
            for state in states
            if state.rank in inside
        }
        if len(inside) > 1:
            found.append(_Group(name, members[name], issued))
    return found


def _mismatches(states: Sequence[RankState]) -> Iterator[tuple[Finding, list[Collective]]]:
    for group in _groups(states):
        calls: dict[int, dict[int, Collective]] = {}
        for rank, issued in group.issued.items():
            for call in issued:
                calls.setdefault(call.sequence, {})[rank] = call
        for sequence in sorted(calls):
            found = _mismatch(group, sequence, calls[sequence])
            if found is not None:
                yield found, list(calls[sequence].values())
                break


def _mismatch(group: _Group, sequence: int, calls: dict[int, Collective]) -> Finding | None:
    for by_size in (False, True):
        kinds: dict[str, list[int]] = {}
        for rank in sorted(calls):
            kinds.setdefault(calls[rank].sizes if by_size else calls[rank].name, []).append(rank)
        if len(kinds) < 2:
            continue
        usual = max(kinds, key=lambda kind: (len(kinds[kind]), -kinds[kind][0]))
        odd = next(kind for kind in kinds if kind != usual)
        most = "the others" if len(kinds[usual]) > 1 else _names(kinds[usual])
        name = calls[kinds[usual][0]].name
        if by_size:
            message = f"{_names(kinds[odd])} called {name} with {odd} where {most} used {usual} (#{sequence}{_of(group)})"
        else:
            message = (
                f"{_names(kinds[odd])} called {odd} where {most} called {usual} (#{sequence}{_of(group)})"
            )
        return Finding(
            causes.COLLECTIVE_MISMATCH,
            message,
            named_ranks(kinds[odd], [rank for rank in calls if rank not in kinds[odd]]),
            tuple(
                Evidence(f"rank {rank}, flight recorder", f"#{sequence} {call.name} {call.sizes}".rstrip())
                for rank, call in sorted(calls.items())[:8]
            ),
            "every rank must call the same collectives in the same order with the same sizes",
            "high",
        )
    return None


def _last(group: _Group, state: RankState | None, rank: int, gone: set[int]) -> float:
    """The newest collective that the rank has issued in the group; infinite where that is not known."""
    issued = group.issued.get(rank)
    if issued:
        return issued[-1].sequence
    if rank in gone:
        return 0
    if state is None:
        return float("inf")
    return 0 if len(state.collectives) + len(state.transfers) < _OVERWRITTEN else float("inf")


def _waits(call: Collective, observation: Observation, part: float = 1.0) -> bool:
    return not call.done and observation.now - call.issued_at >= observation.hang_after * part


def is_blocked(state: RankState, observation: Observation) -> bool:
    return any(_waits(call, observation, STUCK) for call in state.collectives)


def is_stuck(state: RankState | None, observation: Observation, *, loops: bool = False) -> bool:
    if state is None or state.paused:
        return False
    since = state.idle_since
    if since is None and loops:
        since = state.looping_since
    return since is not None and observation.now - since >= observation.hang_after * STUCK


def hint_for(state: RankState, *, looping: bool) -> str:
    if rank_stack(state).waits_in == "DataLoader":
        return (
            "its DataLoader delivers nothing: try num_workers=0, or set timeout= to get an error; " + _ON_HANG
        )
    if looping:
        return "it runs Python code without a pause: see the line with `vcjob stacks`; " + _ON_HANG
    return "see what it does with `vcjob stacks`; " + _ON_HANG


def rank_stack(state: RankState) -> RankStack:
    return RankStack("", state.rank, frames=state.stack)


def stack_evidence(states: dict[int, RankState], ranks: Sequence[int]) -> tuple[Evidence, ...]:
    stacks = StackReport(
        tuple(rank_stack(states[rank]) for rank in ranks if rank in states and states[rank].stack)
    )
    return tuple(Evidence("stack", str(group)) for group in stacks.groups())


def named_ranks(first: Sequence[int], victims: Sequence[int]) -> Ranks:
    return Ranks(tuple(f"rank {rank}" for rank in first), tuple(f"rank {rank}" for rank in victims))


def _names(ranks: Sequence[int]) -> str:
    return joined([f"rank {rank}" for rank in ranks])


def _others(others: Sequence[int], group: _Group, behind: Sequence[int]) -> str:
    if len(others) == 1:
        return f"{_names(others)} has"
    everyone = len(others) + len(behind) == len(group.members)
    return "all others have" if everyone else f"{_names(others)} have"


def _wait(ranks: Sequence[int]) -> str:
    return "waits" if len(ranks) == 1 else "wait"


def _of(group: _Group) -> str:
    return "" if group.name == "0" else f" of group {group.name}"
