"""Ranks that wait in a send or a receive for a rank that does nothing, or for each other.

A transfer has two ends, so that each waiting rank names the one for which it waits, and that one may wait for a third.
The last one is named, if it has shown no sign of work for long. For nccl the flight recorder shows the transfers; for
gloo the agent shows the call of the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation, RankState
from vcjob.diagnosis.rules import hang
from vcjob.diagnosis.rules.collectives.waits import (
    STUCK,
    Wait,
    ended_ranks,
    is_blocked,
    is_long,
    is_stuck,
    rank_stack,
    transfer_of,
)
from vcjob.wellknown import causes

_HINT = "every send needs a receive of the other rank, in the same order"


def unanswered_transfer(observation: Observation) -> Iterator[Finding]:
    """A rank waits in a send or a receive, and the other end does nothing or waits in its turn."""
    if observation.phase != "Running":
        return
    states = {state.rank: state for state in observation.rank_states}
    waits = {rank: wait for rank, state in states.items() if (wait := transfer_of(state)) is not None}
    # A receive may be issued long before its data is needed: only a rank that goes no further waits in it.
    long = {
        rank: wait
        for rank, wait in waits.items()
        if is_long(wait.since, observation, STUCK)
        and not states[rank].paused
        and _goes_no_further(states[rank], observation)
    }
    circle, ends = _follow(long)
    if circle and _long_enough(circle, long, observation):
        yield _circle(observation, states, waits, circle)
        return
    ended = ended_ranks(observation)
    victims: dict[int, list[int]] = {}
    for rank, last in ends.items():
        victims.setdefault(last, []).append(rank)
    for last, waiting in sorted(victims.items()):
        nothing = last in ended or (last in states and _does_nothing(states[last], waits, observation))
        if nothing and _long_enough(waiting, long, observation):
            yield _behind(observation, states, waits, sorted(waiting), last, gone=last in ended)
            return


def _goes_no_further(state: RankState, observation: Observation) -> bool:
    if state.call_since is not None or is_stuck(state, observation):
        return True
    return rank_stack(state).waits_in == "synchronize"


def _follow(waits: Mapping[int, Wait]) -> tuple[list[int], dict[int, int]]:
    """A circle of ranks that wait for each other, if there is one, and for every other rank the last one of its chain.

    Each rank is visited once.
    """
    circle: list[int] = []
    ends: dict[int, int | None] = {}
    for rank in waits:
        path: dict[int, None] = {}
        last = rank
        while last in waits and last not in ends and last not in path:
            peer = waits[last].peer
            if peer is None:
                break
            path[last] = None
            last = peer
        end = ends.get(last, last)
        if last in path:
            names = list(path)
            circle, end = circle or names[names.index(last) :], None
        ends.update(dict.fromkeys(path, end))
    return circle, {rank: end for rank, end in ends.items() if end is not None}


def _long_enough(ranks: list[int], waits: Mapping[int, Wait], observation: Observation) -> bool:
    return any(is_long(waits[rank].since, observation) for rank in ranks)


def _does_nothing(state: RankState, waits: Mapping[int, Wait], observation: Observation) -> bool:
    joined = bool(state.groups) and state.rank not in waits
    return joined and is_stuck(state, observation) and not is_blocked(state, observation)


def _behind(
    observation: Observation,
    states: dict[int, RankState],
    waits: Mapping[int, Wait],
    victims: list[int],
    last: int,
    *,
    gone: bool,
) -> Finding:
    direct = next(rank for rank in victims if waits[rank].peer == last)
    wait = waits[direct]
    missed = f"never {'sent' if wait.name.startswith('recv') else 'received'}"
    waited = f"what rank {direct} has waited {'for in' if wait.name.startswith('recv') else 'to'} {wait.name}"
    ended = "ended with exit code 0 and " if gone else ""
    return Finding(
        causes.RANK_EXITED_EARLY if gone else causes.RANK_BEHIND,
        f"rank {last} {ended}{missed} {waited} for {observation.now - wait.since:.0f} s",
        hang.named_ranks([last], victims),
        hang.stack_evidence(states, [last, direct]),
        _HINT if gone else hang.hint_for(observation, states[last], looping=False),
        "high",
    )


def _circle(
    observation: Observation, states: dict[int, RankState], waits: Mapping[int, Wait], ranks: list[int]
) -> Finding:
    ways = [f"rank {rank} in {waits[rank].name} for rank {waits[rank].peer}" for rank in sorted(ranks)[:4]]
    seconds = observation.now - max(waits[rank].since for rank in ranks)
    return Finding(
        causes.COLLECTIVE_MISMATCH,
        f"ranks have waited for each other for {seconds:.0f} s: {', '.join(ways)}",
        hang.named_ranks(sorted(ranks), []),
        hang.stack_evidence(states, sorted(ranks)[:4]),
        _HINT,
        "high",
    )
