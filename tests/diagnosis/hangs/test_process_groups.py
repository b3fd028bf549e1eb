"""Hangs of jobs with several process groups, as with data and tensor parallelism: who waits for whom is followed."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Collective, End, Frame, Observation, PodObservation, RankState

NOW = 1000.0
_OWN = Frame("train", "/home/me/train.py", 17)
_TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
IN_CALL = (Frame("all_reduce", _TORCH, 3018), _OWN)
_WORLD = {"0": (0, 1, 2, 3)}
#: Two by two ranks: "1" and "2" are the rows, "3" and "4" the columns.
GRID: list[dict[str, tuple[int, ...]]] = [
    {**_WORLD, "1": (0, 1), "3": (0, 2)},
    {**_WORLD, "1": (0, 1), "4": (1, 3)},
    {**_WORLD, "2": (2, 3), "3": (0, 2)},
    {**_WORLD, "2": (2, 3), "4": (1, 3)},
]


def done(number: int, group: str) -> Collective:
    return Collective(number, "all_reduce", group, issued_at=NOW - 110)


def pending(number: int, group: str, since: float = NOW - 100) -> Collective:
    return Collective(number, "all_reduce", group, issued_at=since, done=False)


def blocked(rank: int, *calls: Collective, groups: dict[str, tuple[int, ...]] | None = None) -> RankState:
    """A rank whose main thread stays in the last of its collectives."""
    return RankState(rank, calls, GRID[rank] if groups is None else groups, IN_CALL, idle_since=NOW - 99)


def found(*states: RankState, **fields: Any) -> list[Finding]:
    return diagnose(
        Observation("job", "local", "Running", now=NOW, rank_states=list(states), **fields), LIVE_RULES
    )


def late_in_a_grid(**state: Any) -> list[Finding]:
    """Rank 3 is late in its column: rank 1 waits for it, rank 2 in their row too, and rank 0 waits for rank 1."""
    return found(
        blocked(0, done(4, "1"), done(5, "3"), pending(5, "1", NOW - 99.8)),
        blocked(1, done(4, "1"), pending(5, "4")),
        blocked(2, done(4, "2"), done(5, "3"), pending(5, "2", NOW - 99.9)),
        RankState(3, (done(4, "2"), done(4, "4")), GRID[3], (_OWN,), **state),
    )


def test_the_rank_for_which_all_others_wait_in_the_end_is_named() -> None:
    (finding,) = late_in_a_grid(idle_since=NOW - 99)
    assert (finding.cause, finding.confidence) == ("RankBehind", "high")
    assert (
        finding.message == "rank 3 never reached all_reduce #5 of group 4; rank 1 has waited in it for 100 s"
    )
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 3",), ("rank 0", "rank 1", "rank 2"))


def test_a_rank_that_loops_while_others_wait_through_other_groups_is_named_with_less_confidence() -> None:
    (finding,) = late_in_a_grid(looping_since=NOW - 99)
    assert (finding.cause, finding.confidence, finding.ranks.first) == ("RankBehind", "medium", ("rank 3",))


@pytest.mark.parametrize("state", [{}, {"idle_since": NOW - 5}, {"idle_since": NOW - 99, "paused": True}])
def test_nobody_is_blamed_while_the_rank_at_the_end_works_or_is_stopped(state: dict[str, Any]) -> None:
    """It compiles or writes a checkpoint: those that wait for each other through it can go on when it comes."""
    assert late_in_a_grid(**state) == []


def test_ranks_that_call_two_groups_in_different_order_wait_for_each_other() -> None:
    groups: dict[str, tuple[int, ...]] = {"0": (0, 1, 2), "1": (0, 2)}
    inner = Collective(3, "broadcast", "1", issued_at=NOW - 90, done=False)
    outer = (done(417, "0"), pending(418, "0", NOW - 95))
    states = [blocked(rank, *outer, groups=groups) for rank in (0, 1)]
    states.append(blocked(2, done(417, "0"), inner, groups=groups))
    (finding,) = found(*states)
    assert (finding.cause, finding.confidence) == ("CollectiveMismatch", "high")
    assert finding.message == (
        "rank 0 and rank 1 wait in all_reduce #418, while rank 2 waits in broadcast #3 of group 1: "
        "they wait for each other"
    )
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 2",), ("rank 0", "rank 1"))
    states[2].stack = (_OWN,)  # idle, but perhaps not in the collective
    (finding,) = found(*states)
    assert finding.confidence == "medium"
    states[2].idle_since = None
    assert found(*states) == []


def test_a_circle_over_several_groups_is_shown_and_no_single_rank_is_blamed() -> None:
    (finding,) = found(
        blocked(0, pending(5, "1")),
        blocked(1, pending(5, "4")),
        blocked(3, pending(5, "2")),
        blocked(2, pending(5, "3")),
    )
    assert finding.message == (
        "ranks have waited for each other for 100 s: rank 0 in all_reduce #5 of group 1 for rank 1, "
        "rank 1 in all_reduce #5 of group 4 for rank 3, rank 3 in all_reduce #5 of group 2 for rank 2, "
        "rank 2 in all_reduce #5 of group 3 for rank 0"
    )
    assert finding.ranks.first == ("rank 0", "rank 1", "rank 2", "rank 3")


def test_a_rank_with_two_collectives_under_way_can_go_on_when_one_of_them_can_end() -> None:
    """Rank 0 has issued one in its row that is not needed yet, and waits in its column for rank 2, which works."""
    assert (
        found(
            blocked(0, pending(5, "1"), pending(5, "3")),
            blocked(1, pending(5, "0")),
            RankState(2, (done(4, "3"),), GRID[2], (_OWN,)),
            blocked(3, pending(5, "0")),
        )
        == []
    )


def test_a_rank_that_does_nothing_comes_before_ranks_that_wait_for_each_other() -> None:
    groups: dict[str, tuple[int, ...]] = {"5": (0, 1), "6": (0, 1), "7": (2, 3)}
    (finding,) = found(
        blocked(0, pending(5, "5"), groups=groups),
        blocked(1, pending(5, "6"), groups=groups),
        blocked(2, pending(5, "7"), groups=groups),
        RankState(3, (done(4, "7"),), groups, (_OWN,), idle_since=NOW - 99),
    )
    assert (finding.cause, finding.ranks.first, finding.ranks.victims) == (
        "RankBehind",
        ("rank 3",),
        ("rank 2",),
    )


def test_a_rank_that_ended_is_named_although_others_wait_for_its_peers() -> None:
    pods = [PodObservation("job-worker-2", "worker", 2, rank=3, phase="Succeeded", end=End(0))]
    (finding,) = found(
        blocked(0, done(5, "3"), pending(5, "1")),
        blocked(1, pending(5, "4")),
        blocked(2, done(5, "3")),
        pods=pods,
    )
    assert finding.message == (
        "rank 3 ended with exit code 0 before all_reduce #5 of group 4; rank 1 has waited in it for 100 s"
    )
    assert finding.ranks.victims == ("rank 0", "rank 1")


def test_groups_of_other_ranks_with_the_same_name_are_kept_apart() -> None:
    """A communicator that is split gives the same name to each of its parts."""
    left: dict[str, tuple[int, ...]] = {"1": (0, 1)}
    right: dict[str, tuple[int, ...]] = {"1": (2, 3)}
    (finding,) = found(
        blocked(0, pending(9, "1"), groups=left),
        RankState(1, (done(8, "1"),), left, (_OWN,), idle_since=NOW - 99),
        RankState(2, (done(20, "1"),), right),
        RankState(3, (done(20, "1"),), right),
    )
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 1",), ("rank 0",))


def test_who_waits_for_whom_is_found_in_proportion_to_the_reports() -> None:
    """A chain through 20,000 groups of two: each rank waits for the next, and the last one does nothing."""
    ranks = 20_000

    def state(rank: int) -> RankState:
        groups: dict[str, tuple[int, ...]] = {
            str(each): (each, each + 1) for each in (rank - 1, rank) if 0 <= each < ranks
        }
        if rank == ranks:
            return RankState(rank, (done(4, str(rank - 1)),), groups, (_OWN,), idle_since=NOW - 99)
        return blocked(rank, done(4, str(rank)), pending(5, str(rank)), groups=groups)

    (finding,) = found(*map(state, range(ranks + 1)))
    assert finding.ranks.first == (f"rank {ranks}",)
    assert len(finding.ranks.victims) == ranks
