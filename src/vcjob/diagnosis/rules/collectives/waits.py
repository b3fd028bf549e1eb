"""What one rank waits for, and since when it does nothing. The rules about hangs are built on these.

That a call is still under way proves little: a rank may have issued it early and work meanwhile. A rank counts as waiting
only while it does nothing, or its main thread stays in the call.
"""

from __future__ import annotations

from typing import NamedTuple

from vcjob.diagnosis.observation import Collective, Observation, RankState, Transfer
from vcjob.diagnosis.stacks import RankStack

#: A rank must have done nothing for this part of the time that the others have waited.
STUCK = 0.6
#: What `RankStack.waits_in` may say of a rank that waits for no other rank, or still joins.
NOT_COLLECTIVE = frozenset({"", "DataLoader", "synchronize", "init_process_group", "rendezvous"})


class Wait(NamedTuple):
    """One rank waits in `name` (`send`, `recv`) for the rank `peer` since that time; `peer` None: for any rank.

    Read from the flight recorder, or from the rank's stack where it records no transfers.
    """

    name: str
    peer: int | None
    since: float


def transfer_of(state: RankState) -> Wait | None:
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


def pending_calls(state: RankState) -> dict[str, Collective]:
    """By group, the first collective that is under way. The members of a group end its collectives in their order."""
    pending: dict[str, Collective] = {}
    for call in state.collectives:
        if call.done:
            pending.pop(call.group, None)
        else:
            pending.setdefault(call.group, call)
    return pending


def is_long(since: float, observation: Observation, part: float = 1.0) -> bool:
    """Whether this moment is `hang_after` ago, or a part of it."""
    return observation.now - since >= observation.hang_after * part


def is_blocked(state: RankState, observation: Observation) -> bool:
    """Whether a collective of the rank has been under way for long."""
    return any(is_long(call.issued_at, observation, STUCK) for call in pending_calls(state).values())


def is_stuck(state: RankState | None, observation: Observation, *, loops: bool = False) -> bool:
    """Whether the rank has done nothing for long; with `loops`, or has run Python code without an effect."""
    if state is None or state.paused:
        return False
    since = state.idle_since
    if since is None and loops:
        since = state.looping_since
    return since is not None and is_long(since, observation, STUCK)


def stays_in_call(state: RankState, observation: Observation) -> bool:
    """Whether the main thread has been in one call that waits for other ranks for long."""
    if state.call_since is not None:
        return is_long(state.call_since, observation, STUCK)
    since = state.stack_since if state.stack_since is not None else state.idle_since
    inside = rank_stack(state).waits_in not in NOT_COLLECTIVE
    return inside and since is not None and is_long(since, observation, STUCK)


def ended_ranks(observation: Observation) -> set[int]:
    """Ranks that have ended with exit code 0."""
    return {
        pod.rank
        for pod in observation.ranks()
        if pod.rank is not None and pod.end is not None and pod.end.exit_code == 0
    }


def rank_stack(state: RankState) -> RankStack:
    return RankStack("", state.rank, frames=state.stack)
