"""Ranks that called different collectives, or the same one with different sizes, at the same place of one group.

What most ranks of the group called counts as right. Where no call has the majority, also because some ranks have not
reported yet, the calls are shown and nobody is blamed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from vcjob.diagnosis.finding import Confidence, Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Collective, Observation, RankState
from vcjob.diagnosis.rules.collectives.wait_graph import Group, process_groups
from vcjob.diagnosis.rules.collectives.waits import STUCK, is_long
from vcjob.diagnosis.rules.hang import named_ranks, of_group, rank_names
from vcjob.diagnosis.rules.wording import joined
from vcjob.wellknown import causes

_SHOWN = 8


class _Mismatch(NamedTuple):
    """The calls of one place in a group, by rank; `late`: ranks that have reported, but not yet from this place."""

    group: Group
    sequence: int
    calls: Mapping[int, Collective]
    by_size: bool
    late: list[int]


def different_collectives(observation: Observation) -> Iterator[Finding]:
    """Ranks called different collectives at the same place of the same group, and wait since then."""
    if observation.phase != "Running":
        return
    for each in _mismatches(observation.rank_states):
        part = 1.0 if each.late else STUCK
        pending = [call for call in each.calls.values() if not call.done]
        if any(is_long(call.issued_at, observation, part) for call in pending):
            yield _finding(each)
            return


def first_mismatch(observation: Observation, *, last: bool = False) -> Finding | None:
    """For a job that has failed in its communication: the first place where the ranks called different collectives.

    With `last`, only where a rank that has reported called nothing after it.
    """
    for each in _mismatches(observation.rank_states):
        if not last or any(_last(each.group, rank) == each.sequence for rank in each.calls):
            return _finding(each)
    return None


def _mismatches(states: Sequence[RankState]) -> Iterator[_Mismatch]:
    """The first one of each group."""
    reported = {state.rank for state in states}
    for group in process_groups(states):
        calls: dict[int, dict[int, Collective]] = {}
        for rank, issued in group.issued.items():
            for call in issued:
                calls.setdefault(call.sequence, {})[rank] = call
        for sequence in sorted(calls):
            by_size = _differ(calls[sequence])
            if by_size is not None:
                late = [rank for rank in group.members if rank in reported and _last(group, rank) < sequence]
                yield _Mismatch(group, sequence, calls[sequence], by_size, late)
                break


def _differ(calls: Mapping[int, Collective]) -> bool | None:
    """Whether the calls differ in their sizes, or already in their names (False); None where they do not."""
    if len({call.name for call in calls.values()}) > 1:
        return False
    return True if len({call.sizes for call in calls.values()}) > 1 else None


def _last(group: Group, rank: int) -> int:
    issued = group.issued.get(rank)
    return issued[-1].sequence if issued else 0


def _finding(found: _Mismatch) -> Finding:
    kinds: dict[str, list[int]] = {}
    for rank, call in sorted(found.calls.items()):
        kinds.setdefault(call.sizes if found.by_size else call.name, []).append(rank)
    place = f"(#{found.sequence}{of_group(found.group)})"
    usual = max(kinds, key=lambda kind: len(kinds[kind]))
    if 2 * len(kinds[usual]) <= len(found.group.members):
        message = joined([f"{rank_names(ranks)} {_called(found, kind)}" for kind, ranks in kinds.items()])
        confidence: Confidence = "medium" if found.late else "high"
        return _made(found, f"{message} {place}", named_ranks([], sorted(found.calls)), confidence)
    odd = next(kind for kind in kinds if kind != usual)
    others = "the others" if len(kinds[usual]) > 1 else rank_names(kinds[usual])
    expected = f"{others} used {usual}" if found.by_size else f"{others} called {usual}"
    victims = sorted(found.calls.keys() - frozenset(kinds[odd]))
    message = f"{rank_names(kinds[odd])} {_called(found, odd)} where {expected} {place}"
    return _made(found, message, named_ranks(kinds[odd], victims), "high")


def _called(found: _Mismatch, kind: str) -> str:
    name = next(iter(found.calls.values())).name
    return f"called {name} with {kind}" if found.by_size else f"called {kind}"


def _made(found: _Mismatch, message: str, ranks: Ranks, confidence: Confidence) -> Finding:
    return Finding(
        causes.COLLECTIVE_MISMATCH,
        message,
        ranks,
        tuple(
            Evidence(f"rank {rank}, flight recorder", f"#{found.sequence} {call.name} {call.sizes}".rstrip())
            for rank, call in sorted(found.calls.items())[:_SHOWN]
        ),
        "every rank must call the same collectives in the same order with the same sizes",
        confidence,
    )
