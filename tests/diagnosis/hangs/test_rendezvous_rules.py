"""The rules about running ranks that do not meet, over stacks and sockets as the backends see them."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Collective, End, Frame, Observation, PodObservation, RankState

NOW = 1000.0
TORCH = "/venv/lib/python3.11/site-packages/torch/distributed"
OWN = Frame("main", "/home/me/train.py", 12)
INIT = (Frame("init_process_group", f"{TORCH}/distributed_c10d.py", 2711), OWN)
STORE = (Frame("_create_c10d_store", f"{TORCH}/rendezvous.py", 226), *INIT)
#: Connected to the store, and waits for the other ranks of the group.
MESH = (Frame("_create_gloo_process_group", f"{TORCH}/distributed_c10d.py", 757), *INIT)


def at(rank: int, stack: tuple[Frame, ...], since: float = NOW - 30, **fields: Any) -> RankState:
    return RankState(rank, stack=stack, stack_since=since, **fields)


def idle(rank: int, since: float = NOW - 30, **fields: Any) -> RankState:
    return at(rank, (OWN,), since, idle_since=since, **fields)


def pods(count: int, **fields: Any) -> list[PodObservation]:
    return [
        PodObservation(f"job-{rank}", "worker" if rank else "master", 0, rank=rank, phase="Running", **fields)
        for rank in range(count)
    ]


def found(*states: RankState, phase: str = "Running", **fields: Any) -> list[Finding]:
    fields = {"pods": pods(len(states)), "expected_ranks": len(states), **fields}
    observation = Observation("job", "local", phase, now=NOW, rank_states=list(states), **fields)
    return diagnose(observation, LIVE_RULES)


LOCAL: dict[str, Any] = {"master_listens": False, "master_port": 23456}


def test_a_master_that_does_nothing_while_others_connect_is_named() -> None:
    (finding,) = found(idle(0), at(1, STORE), at(2, STORE), **LOCAL)
    assert (finding.cause, finding.confidence) == ("MasterNotListening", "high")
    assert finding.message == (
        "nothing listens on port 23456 of the master: rank 0 has done nothing for 30 s; "
        "rank 1 and rank 2 wait to connect to it"
    )
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 0",), ("rank 1", "rank 2"))
    assert [each.text for each in finding.evidence] == ["rank 0 is in main, train.py:12"]
    assert finding.hint == (
        "see its output before init_process_group with `vcjob logs job --rank 0`; see what it does with `vcjob stacks job`"
    )


def test_without_sockets_the_stacks_name_the_master() -> None:
    (finding,) = found(idle(0), at(1, STORE))
    assert (finding.cause, finding.confidence) == ("MasterNotListening", "medium")


def test_ranks_whose_init_container_waits_for_an_idle_master_count_too() -> None:
    waiting = pods(2)
    waiting[1].phase, waiting[1].waits_for_master_since = "Pending", NOW - 30
    (finding,) = found(idle(0), pods=waiting, expected_ranks=2, **LOCAL)
    assert (finding.cause, finding.ranks.victims) == ("MasterNotListening", ("rank 1",))
    waiting[1].waits_for_master_since = NOW - 5
    assert found(idle(0), pods=waiting, expected_ranks=2, **LOCAL) == []


@pytest.mark.parametrize(
    "master",
    [
        at(0, (OWN,)),
        idle(0, NOW - 10),
        idle(0, paused=True),
        idle(0, groups={"0": (0, 1)}),
        at(0, STORE, NOW - 5),
        at(0, MESH),
    ],
    ids=["works", "worked", "stopped", "has-joined", "just-began", "goes-on"],
)
def test_a_master_that_works_first_is_no_hang(master: RankState) -> None:
    assert found(master, at(1, STORE), **LOCAL) == []


def test_ranks_that_have_tried_for_a_short_time_make_no_hang() -> None:
    assert found(idle(0), at(1, STORE, NOW - 10), **LOCAL) == []
    assert found(idle(0), at(1, (OWN,)), **LOCAL) == []


def test_an_idle_rank_may_wait_for_one_that_works_before_it_joins() -> None:
    assert found(idle(0), at(1, STORE), at(2, (OWN,)), **LOCAL) == []
    assert found(at(0, STORE), idle(1), at(2, (OWN,))) == []


def test_a_master_that_waits_at_another_port_is_named() -> None:
    (finding,) = found(at(0, STORE), at(1, STORE), **LOCAL)
    assert finding.cause == "MasterNotListening"
    assert finding.message == (
        "nothing listens on port 23456 of the master, and rank 0 has waited in init_process_group for 30 s: "
        "it uses another port; rank 1 waits to connect to it"
    )


def test_a_master_that_others_cannot_reach_is_named_where_sockets_are_not_seen() -> None:
    (finding,) = found(at(0, STORE), at(1, STORE), at(2, MESH))
    assert (finding.cause, finding.ranks.first) == ("MasterUnreachable", ("rank 1",))
    assert finding.message == (
        "rank 1 cannot connect to rank 0, which has waited in init_process_group for 30 s"
    )


@pytest.mark.parametrize(
    "others",
    [
        (at(1, MESH), at(2, MESH)),
        (at(1, (OWN,), groups={"0": (0, 1, 2, 3)}), at(2, MESH)),
        (
            at(
                1,
                (OWN,),
                NOW - 1,
                groups={"0": (0, 1, 2, 3)},
                collectives=(Collective(1, "all_reduce", issued_at=NOW - 25),),
            ),
            at(2, MESH),
        ),
    ],
    ids=["gloo", "nccl", "nccl-in-a-collective"],
)
def test_a_master_that_waits_for_more_ranks_than_the_job_has_is_named(others: tuple[RankState, ...]) -> None:
    found_all = found(at(0, STORE), *others)
    (finding,) = [each for each in found_all if each.confidence == "high"]
    assert (finding.cause, finding.ranks.first) == ("WorldSizeMismatch", ("rank 0",))
    assert finding.message == (
        "the program expects more ranks than the Job has: all 3 ranks have joined, and rank 0 has waited for more "
        "in init_process_group for 30 s"
    )
    assert len(found_all) == 1


def test_the_only_rank_of_a_job_may_wait_for_more_too() -> None:
    (finding,) = found(at(0, STORE))
    assert "its only rank has joined" in finding.message


@pytest.mark.parametrize(
    "fields",
    [
        {"expected_ranks": 4},
        {"expected_ranks": None},
        {"pods": pods(3, connected=False)},
        {"pods": [*pods(2), PodObservation("p", "worker", 1, rank=2, phase="Pending")]},
        {"pods": [*pods(3), PodObservation("p", "evaluator", 0, phase="Running")]},
        {"phase": "Pending"},
    ],
    ids=[
        "a-pod-is-missing",
        "no-ranks",
        "not-connected",
        "a-pod-is-pending",
        "a-pod-without-a-rank",
        "the-job-is-pending",
    ],
)
def test_a_master_that_waits_for_ranks_that_still_come_is_no_hang(fields: dict[str, Any]) -> None:
    assert found(at(0, STORE), at(1, MESH), at(2, MESH), **fields) == []


@pytest.mark.parametrize(
    "late",
    [
        at(2, (OWN,)),
        at(2, MESH, NOW - 10),
        at(2, STORE, NOW - 10),
        at(2, (OWN,), NOW - 1, groups={"0": (0, 1, 2)}),
        at(2, MESH, paused=True),
    ],
    ids=["loads", "just-joined", "just-began", "goes-on", "stopped"],
)
def test_a_rank_that_joins_late_is_no_hang(late: RankState) -> None:
    assert found(at(0, STORE), at(1, MESH), late) == []


def test_a_rank_that_ended_without_joining_is_named() -> None:
    ended = pods(3)
    ended[2].phase, ended[2].end = "Succeeded", End(0)
    (finding,) = found(at(0, STORE), at(1, MESH), pods=ended, expected_ranks=3)
    assert (finding.cause, finding.ranks.first) == ("RankExitedEarly", ("rank 2",))
    assert finding.message == (
        "rank 2 ended with exit code 0 and never joined; rank 0 and rank 1 have waited for 30 s"
    )


def test_a_pod_with_several_ranks_may_still_start_some_of_them() -> None:
    assert found(at(0, STORE), at(1, MESH), at(1, MESH), expected_ranks=2, pods=pods(2)) == []


@pytest.mark.parametrize(
    ("stack", "place", "hint"),
    [(STORE, "rank 2 waits in init_process_group, train.py:12", "use MASTER_ADDR and MASTER_PORT from the environment"),
     ((OWN,), "rank 2 is in main, train.py:12", "see its output before init_process_group")],
    ids=["another-port", "elsewhere"],
)  # fmt: skip
def test_a_rank_that_is_not_connected_is_named_with_its_place(
    stack: tuple[Frame, ...], place: str, hint: str
) -> None:
    ranks = pods(3, connected=True)
    ranks[2].connected = False
    (finding,) = found(
        at(0, STORE),
        at(1, MESH),
        at(2, stack, idle_since=NOW - 30),
        pods=ranks,
        master_listens=True,
        master_port=23456,
        rendezvous_since=NOW - 30,
    )
    assert (finding.cause, finding.ranks.first) == ("RankNotConnected", ("rank 2",))
    assert [each.text for each in finding.evidence] == ["port 23456: 2 of 3 ranks", place]
    assert hint in finding.hint


def test_without_sockets_a_rank_that_never_joins_is_named() -> None:
    (finding,) = found(at(0, STORE), at(1, MESH), idle(2))
    assert (finding.cause, finding.ranks.first) == ("RankNotConnected", ("rank 2",))
    assert finding.message == (
        "rank 2 has not called init_process_group and has done nothing for 30 s; rank 0 waits there"
    )
    assert found(at(0, STORE), at(1, MESH), idle(2, NOW - 10)) == []
    assert found(at(0, STORE, NOW - 10), at(1, MESH), idle(2)) == []
