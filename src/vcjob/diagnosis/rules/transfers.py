"""Ranks that wait in a send or a receive for a rank that does nothing, or for each other.

A transfer has two ends, so that each waiting rank names the one for which it waits, and that one may wait for a third.
The last one is named, if it has shown no sign of work for long. For nccl the flight recorder shows the transfers; for
gloo the agent shows the call of the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation, RankState, Transfer
from vcjob.diagnosis.rules import hang
from vcjob.wellknown import causes

_HINT = "every send needs a receive of the other rank, in the same order"


class Wait(NamedTuple):
    """One rank waits in `name` (`send`, `recv`) for the rank `peer`, since a moment; `peer` None: for any rank."""

    name: str
    peer: int | None
    since: float


def unanswered_transfer(observation: Observation) -> Iterator[Finding]:
    """A rank waits in a send or a receive, and the other end does nothing or waits in its turn."""
    if observation.phase != "Running":
        return
    states = {state.rank: state for state in observation.rank_states}
    waits = {rank: wait for rank, state in states.items() if (wait := wait_of(state)) is not None}
    # A receive may be issued long before its data is needed: only a rank that goes no further waits in it.
    long = {
        rank: wait
        for rank, wait in waits.items()
        if observation.now - wait.since >= observation.hang_after * hang.STUCK
        and _goes_no_further(states[rank], observation)
    }
    chains = {
        rank: _chain(rank, long)
        for rank, wait in long.items()
        if observation.now - wait.since >= observation.hang_after
    }
    ended = hang.ended_ranks(observation)
    for chain in chains.values():
        last = chain[-1]
        if any(rank in states and states[rank].paused for rank in chain):
            continue
        if last in chain[:-1]:
            yield _circle(observation, states, waits, chain[chain.index(last) :])
            return
        if len(chain) == 1:
            continue
        if last in ended or (last in states and _does_nothing(states[last], waits, observation)):
            victims = sorted({rank for each in chains.values() if each[-1] == last for rank in each[:-1]})
            yield _behind(observation, states, waits, victims, last, gone=last in ended)
            return


def wait_of(state: RankState) -> Wait | None:
    """The transfer in which a rank waits."""
    if state.call_since is not None:
        name = state.stack[0].function if state.stack else "recv"
        return Wait(name.rsplit(".", 1)[-1], state.peer, state.call_since)
    pending: dict[str, Transfer] = {}
    for each in state.transfers:
        # What is issued as one batch is recorded one by one, never ends, and is followed by an entry that does.
        if each.done:
            pending.pop(each.group, None)
        elif each.peer is not None:
            pending.setdefault(each.group, each)
    first = min(pending.values(), key=lambda each: each.issued_at, default=None)
    return None if first is None else Wait(first.name, first.peer, first.issued_at)


def _goes_no_further(state: RankState, observation: Observation) -> bool:
    if state.call_since is not None or hang.is_stuck(state, observation):
        return True
    return hang.rank_stack(state).waits_in == "synchronize"


def _chain(rank: int, waits: Mapping[int, Wait]) -> list[int]:
    """The ranks that wait for each other, from this one on; the last one does not wait or is there twice."""
    chain, peer = [rank], waits[rank].peer
    while peer is not None:
        again = peer in chain
        chain.append(peer)
        peer = None if again or peer not in waits else waits[peer].peer
    return chain


def _does_nothing(state: RankState, waits: Mapping[int, Wait], observation: Observation) -> bool:
    joined = bool(state.groups) and state.rank not in waits
    return joined and hang.is_stuck(state, observation) and not hang.is_blocked(state, observation)


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
        _HINT if gone else hang.hint_for(states[last], looping=False),
        "high",
    )


def _circle(
    observation: Observation, states: dict[int, RankState], waits: Mapping[int, Wait], circle: list[int]
) -> Finding:
    ranks = circle[:-1]
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
