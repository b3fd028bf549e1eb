"""The rules about ranks that wait in a send or a receive, over states as the agents report them."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import (
    Collective,
    End,
    Frame,
    Observation,
    PodObservation,
    RankState,
    Transfer,
)
from vcjob.diagnosis.rank_report import decode_report

NOW = 1000.0
GROUPS: dict[str, tuple[int, ...]] = {"0": (0, 1, 2)}
OWN = Frame("train", "/home/me/train.py", 17)
TORCH = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def in_call(rank: int, peer: int | None, name: str = "recv", since: float = NOW - 95) -> RankState:
    """A rank whose main thread is in one call of `recv` or `send`, as the agent sees it with gloo."""
    return RankState(
        rank,
        groups=GROUPS,
        stack=(Frame(name, TORCH, 3000), OWN),
        idle_since=since,
        call_since=since,
        peer=peer,
    )


def idle(rank: int, since: float | None = NOW - 90) -> RankState:
    return RankState(rank, groups=GROUPS, stack=(OWN,), idle_since=since)


def found(*states: RankState, phase: str = "Running", **fields: Any) -> list[Finding]:
    observation = Observation("job", "local", phase, now=NOW, rank_states=list(states), **fields)
    return diagnose(observation, LIVE_RULES)


def test_an_idle_rank_that_never_sent_is_named() -> None:
    (finding,) = found(in_call(0, 1), idle(1), idle(2))
    assert (finding.cause, finding.confidence) == ("RankBehind", "high")
    assert finding.message == "rank 1 never sent what rank 0 has waited for in recv for 95 s"
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 1",), ("rank 0",))
    assert [each.text for each in finding.evidence] == [
        "rank 1 is in train, train.py:17",
        "rank 0 waits in recv, train.py:17",
    ]


def test_an_idle_rank_that_never_received_is_named() -> None:
    (finding,) = found(in_call(0, 2, "send"), idle(1), idle(2))
    assert finding.message == "rank 2 never received what rank 0 has waited to send for 95 s"


def test_the_end_of_a_chain_of_waiting_ranks_is_named() -> None:
    (finding,) = found(in_call(0, 1), in_call(1, 2, since=NOW - 80), idle(2))
    assert finding.message == "rank 2 never sent what rank 1 has waited for in recv for 80 s"
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 2",), ("rank 0", "rank 1"))


def test_ranks_that_receive_from_each_other_wait_for_ever() -> None:
    (finding,) = found(in_call(0, 1), in_call(1, 0, since=NOW - 80), idle(2))
    assert finding.cause == "CollectiveMismatch"
    assert finding.message == (
        "ranks have waited for each other for 80 s: rank 0 in recv for rank 1, rank 1 in recv for rank 0"
    )
    assert finding.ranks.first == ("rank 0", "rank 1")


def test_a_rank_that_ended_without_sending_is_named() -> None:
    pods = [PodObservation("job-worker-0", "worker", 0, rank=1, phase="Succeeded", end=End(0))]
    (finding,) = found(in_call(0, 1), pods=pods)
    assert finding.cause == "RankExitedEarly"
    assert finding.message == (
        "rank 1 ended with exit code 0 and never sent what rank 0 has waited for in recv for 95 s"
    )


@pytest.mark.parametrize(
    "other",
    [
        idle(1, since=None),
        idle(1, since=NOW - 5),
        RankState(1, groups=GROUPS, idle_since=NOW - 90, paused=True),
        RankState(1, groups=GROUPS, looping_since=NOW - 90),
        RankState(1, idle_since=NOW - 90),
        in_call(1, None),
        in_call(1, 0, since=NOW - 5),
        in_call(1, 2),
    ],
    ids=["works", "worked", "stopped", "computes", "joins", "from-any", "just-began", "for-one-that-works"],
)
def test_a_pipeline_whose_other_stage_works_is_no_hang(other: RankState) -> None:
    assert found(in_call(0, 1), other, idle(2, since=None)) == []


def test_a_short_wait_is_no_hang() -> None:
    assert found(in_call(0, 1, since=NOW - 15), idle(1), idle(2)) == []


def test_ranks_that_only_ever_receive_are_no_hang_where_each_call_is_a_new_one() -> None:
    """A rank that gets something every five seconds is always in the same functions and uses no CPU worth mentioning."""
    served = in_call(0, 1)
    served.call_since = NOW - 5
    assert found(served, idle(1), idle(2)) == []


def test_a_receive_of_which_only_the_stack_is_known_names_nobody() -> None:
    served = in_call(0, None)
    served.call_since = None
    assert found(served, idle(1), idle(2)) == []


def test_a_receive_from_a_rank_that_waits_in_a_collective_is_a_mismatch() -> None:
    waits = Collective(5, "all_reduce", issued_at=NOW - 95, done=False)
    stack = (Frame("all_reduce", TORCH, 3018), OWN)
    others = [RankState(rank, (waits,), GROUPS, stack, idle_since=NOW - 90) for rank in (1, 2)]
    (finding,) = found(in_call(0, 1), *others)
    assert (finding.cause, finding.confidence) == ("CollectiveMismatch", "high")
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 0",), ("rank 1", "rank 2"))
    assert finding.message == (
        "rank 1 and rank 2 wait in all_reduce #5, while rank 0 waits in recv for rank 1: they wait for each other"
    )
    assert found(in_call(0, 1, since=NOW - 5), *others) == []
    others[0].idle_since = None  # it has issued the collective early, and works
    others[0].stack = (OWN,)
    assert found(in_call(0, 1), *others) == []


def test_a_rank_that_receives_from_one_outside_the_group_is_not_the_one_that_is_behind() -> None:
    groups: dict[str, tuple[int, ...]] = {**GROUPS, "1": (0, 1)}
    waits = Collective(5, "all_reduce", "1", issued_at=NOW - 95, done=False)
    receives = in_call(0, 2)
    receives.groups = groups
    (finding,) = found(receives, RankState(1, (waits,), groups), idle(2))
    assert finding.message == "rank 2 never sent what rank 0 has waited for in recv for 95 s"


@pytest.mark.parametrize(
    "waits",
    [
        {"call_since": NOW - 94},
        {"transfers": (Transfer("recv", 2, issued_at=NOW - 94, done=False),)},
    ],
    ids=["from-any", "in-the-recorder"],
)
def test_a_rank_that_receives_from_one_that_works_does_not_do_nothing(waits: dict[str, Any]) -> None:
    """Rank 0 waits for it in a collective, and the stage from which it receives is busy."""
    groups: dict[str, tuple[int, ...]] = {**GROUPS, "1": (0, 1)}
    late = Collective(5, "all_reduce", "1", issued_at=NOW - 95, done=False)
    receives = RankState(1, groups=groups, stack=(OWN,), idle_since=NOW - 94, **waits)
    assert found(RankState(0, (late,), groups), receives, idle(2, since=None)) == []
    assert found(RankState(0, (late,), groups), idle(1), idle(2, since=None))[0].ranks.first == ("rank 1",)


def pending(rank: int, *transfers: Transfer, since: float | None = NOW - 90) -> RankState:
    """A rank whose transfers the recorder shows, as with nccl, and which goes no further."""
    return RankState(rank, groups=GROUPS, transfers=transfers, stack=(OWN,), idle_since=since)


WAITS = Transfer("recv", 1, issued_at=NOW - 95, done=False)


def test_a_transfer_in_the_recorder_names_the_rank_too() -> None:
    (finding,) = found(pending(0, Transfer("send", 1), WAITS), idle(1), idle(2))
    assert finding.message == "rank 1 never sent what rank 0 has waited for in recv for 95 s"


def test_a_receive_that_was_issued_early_and_is_not_needed_yet_is_no_hang() -> None:
    assert found(pending(0, WAITS, since=None), idle(1), idle(2)) == []


def test_a_batch_is_over_with_the_entry_that_follows_it() -> None:
    """The transfers of a batch never end in the recorder; the entry after them does."""
    batch = Transfer("coalesced", None, issued_at=NOW - 95)
    assert found(pending(0, WAITS, batch), idle(1), idle(2)) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nccl:send 1->0", ("send", 4)),
        ("nccl:recv 1<-2", ("recv", 7)),
        ("gloo:recv 1<-?", ("recv", None)),
        ("nccl:recv 1<-9", ("recv", None)),
        ("nccl:coalesced", ("coalesced", None)),
    ],
)
def test_the_recorder_names_ranks_of_the_group(name: str, expected: tuple[str, int | None]) -> None:
    text = (
        '{"pid": 7, "rank": 6, "at": 950.0, "groups": {"3": [4, 6, 7]}, "entries": [{"collective_seq_id": 1, '
        f'"profiling_name": "{name}", "process_group": ["3", ""], "time_created_ns": 900000000000, "is_p2p": true}}]}}'
    )
    report = decode_report(text.encode())
    assert report is not None and report.state.collectives == ()
    (transfer,) = report.state.transfers
    assert ((transfer.name, transfer.peer), transfer.issued_at, transfer.done) == (expected, 900.0, False)


def test_a_pipeline_of_many_stages_is_followed_in_proportion_to_their_number() -> None:
    stages = 20_000
    states = [in_call(rank, rank + 1) for rank in range(stages)]
    (finding,) = found(*states, idle(stages))
    assert finding.ranks.first == (f"rank {stages}",)
    assert len(finding.ranks.victims) == stages
    states[0].paused = True  # it waits itself, and the others are not to blame for that
    (finding,) = found(*states, idle(stages))
    assert len(finding.ranks.victims) == stages - 1


def test_a_rank_that_waits_for_a_circle_is_not_part_of_it() -> None:
    (finding,) = found(in_call(0, 1), in_call(1, 2), in_call(2, 1))
    assert finding.ranks.first == ("rank 1", "rank 2")
