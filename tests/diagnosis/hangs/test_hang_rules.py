"""The rules about ranks that wait for each other, over states as the agents report them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Collective, End, Frame, Observation, PodObservation, RankState
from vcjob.diagnosis.report import failure_report

NOW = 1000.0
_GROUPS: dict[str, tuple[int, ...]] = {"0": (0, 1, 2)}
_PAIR: dict[str, tuple[int, ...]] = {"0": (0, 1)}
_OWN = (Frame("train", "/home/me/train.py", 17),)


def calls(
    last: int, *, waits_since: float | None = None, name: str = "all_reduce", sizes: str = "4 Float"
) -> tuple[Collective, ...]:
    """Collectives 1 to `last`; the last one is still under way where `waits_since` is given."""
    done = [Collective(number, "all_reduce", sizes="4 Float", issued_at=900.0) for number in range(1, last)]
    issued = NOW - 60 if waits_since is None else waits_since
    return (*done, Collective(last, name, sizes=sizes, issued_at=issued, done=waits_since is None))


def waiting(rank: int, number: int = 418, since: float = NOW - 95) -> RankState:
    return RankState(rank, calls(number, waits_since=since), _GROUPS)


def observed(*states: RankState, phase: str = "Running", **fields: Any) -> Observation:
    return Observation("job", "local", phase, now=NOW, rank_states=list(states), **fields)


def found(*states: RankState, phase: str = "Running") -> list[Finding]:
    return diagnose(observed(*states, phase=phase), LIVE_RULES)


def test_an_idle_rank_that_never_reached_the_collective_is_named() -> None:
    behind = RankState(2, calls(417), _GROUPS, _OWN, idle_since=NOW - 90)
    (finding,) = found(waiting(0), waiting(1), behind)
    assert finding.cause == "RankBehind" and finding.confidence == "high"
    assert finding.message == "rank 2 never reached all_reduce #418; all others have waited in it for 95 s"
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 2",), ("rank 0", "rank 1"))
    assert [each.text for each in finding.evidence] == ["rank 2 is in train, train.py:17"]


def test_a_rank_that_works_is_not_named_however_long_the_others_wait() -> None:
    assert found(waiting(0), waiting(1), RankState(2, calls(417), _GROUPS)) == []
    recently = RankState(2, calls(417), _GROUPS, idle_since=NOW - 5)
    assert found(waiting(0), waiting(1), recently) == []


def test_a_short_wait_is_no_hang() -> None:
    idle = RankState(2, calls(417), _GROUPS, idle_since=NOW - 90)
    assert found(waiting(0, since=NOW - 15), waiting(1, since=NOW - 15), idle) == []


def test_a_loop_counts_only_after_the_first_collective() -> None:
    """Before it, a rank that computes prepares something: it compiles, or it reads its data."""
    loops: dict[str, Any] = {"groups": _GROUPS, "looping_since": NOW - 90}
    assert found(waiting(0, 1), waiting(1, 1), RankState(2, **loops)) == []
    (finding,) = found(waiting(0), waiting(1), RankState(2, calls(417), **loops))
    assert (finding.ranks.first, finding.confidence) == (("rank 2",), "medium")


def test_a_stopped_rank_is_no_hang() -> None:
    stopped = RankState(2, calls(417), _GROUPS, idle_since=NOW - 90, paused=True)
    assert found(waiting(0), waiting(1), stopped) == []


def test_a_rank_without_a_report_is_not_blamed() -> None:
    assert found(waiting(0), waiting(1)) == []


def test_a_rank_whose_report_no_longer_shows_the_group_is_not_blamed() -> None:
    other = tuple(Collective(number, "all_reduce", "1", issued_at=NOW - 50) for number in range(100))
    busy_elsewhere = RankState(2, other, _GROUPS, idle_since=NOW - 90)
    assert found(waiting(0), waiting(1), busy_elsewhere) == []


def test_nobody_is_blamed_while_another_rank_that_is_missing_works() -> None:
    """Rank 1 may wait for what rank 2 makes, as ranks do that let one of them download the data."""
    idle = RankState(1, calls(417), _GROUPS, idle_since=NOW - 90)
    assert found(waiting(0), idle, RankState(2, calls(417), _GROUPS)) == []
    (finding,) = found(waiting(0), idle, RankState(2, calls(417), _GROUPS, idle_since=NOW - 90))
    assert finding.ranks.first == ("rank 1", "rank 2")
    pods = [PodObservation("job-worker-1", "worker", 1, rank=2, phase="Succeeded", end=End(0))]
    working = RankState(1, calls(417), _GROUPS)
    assert diagnose(observed(waiting(0), working, pods=pods), LIVE_RULES) == []


def test_a_rank_that_ended_before_the_collective_is_named() -> None:
    pods = [PodObservation("job-worker-1", "worker", 1, rank=2, phase="Succeeded", end=End(0))]
    (finding,) = diagnose(observed(waiting(0), waiting(1), pods=pods), LIVE_RULES)
    assert (finding.cause, finding.ranks.first) == ("RankExitedEarly", ("rank 2",))


_TORCH = "/venv/lib/python3.11/site-packages/torch/distributed"
_IN_ALL_REDUCE = (Frame("all_reduce", f"{_TORCH}/distributed_c10d.py", 3018), *_OWN)


def test_without_the_recorder_the_stacks_name_the_rank_that_is_not_in_the_collective() -> None:
    stacks = [_IN_ALL_REDUCE, _IN_ALL_REDUCE, _OWN]
    states = [RankState(rank, stack=stack, idle_since=NOW - 25) for rank, stack in enumerate(stacks)]
    (finding,) = found(*states)
    assert finding.message == "rank 2 is not in all_reduce; all others have waited in it for 25 s"
    assert (finding.ranks.first, finding.confidence) == (("rank 2",), "medium")


def test_without_the_recorder_a_rank_that_works_or_cannot_be_read_makes_no_hang() -> None:
    waits = [RankState(rank, stack=_IN_ALL_REDUCE, idle_since=NOW - 25) for rank in (0, 1)]
    assert found(*waits, RankState(2, stack=_OWN)) == []
    assert found(*waits, RankState(2, idle_since=NOW - 25)) == []
    assert found(*waits) == []


def test_another_collective_at_the_same_place_is_a_mismatch() -> None:
    other = RankState(1, calls(12, waits_since=NOW - 30, name="all_gather"), _GROUPS)
    (finding,) = found(waiting(0, 12), other, waiting(2, 12))
    assert finding.cause == "CollectiveMismatch"
    assert finding.message == "rank 1 called all_gather where the others called all_reduce (#12)"
    assert finding.ranks.first == ("rank 1",)


def test_of_two_ranks_that_differ_none_is_blamed() -> None:
    states = [RankState(0, calls(12, waits_since=NOW - 30), _PAIR)]
    states.append(RankState(1, calls(12, waits_since=NOW - 30, sizes="5 Float"), _PAIR))
    (finding,) = found(*states)
    assert finding.message == (
        "rank 0 called all_reduce with 4 Float and rank 1 called all_reduce with 5 Float (#12)"
    )
    assert (finding.ranks.first, finding.ranks.victims) == ((), ("rank 0", "rank 1"))
    assert finding.confidence == "high"


def test_a_mismatch_names_no_side_before_all_ranks_have_reported_it() -> None:
    """Which of two calls is the usual one depends on the report that is late."""
    odd = RankState(1, calls(9, waits_since=NOW - 15, sizes="5 Float"), _GROUPS)
    late = RankState(0, calls(8), _GROUPS)
    assert found(late, odd, waiting(2, 9, since=NOW - 15)) == []
    (finding,) = found(waiting(0, 9, since=NOW - 15), odd, waiting(2, 9, since=NOW - 15))
    assert (finding.ranks.first, finding.confidence) == (("rank 1",), "high")
    odd = RankState(1, calls(9, waits_since=NOW - 25, sizes="5 Float"), _GROUPS)
    (finding,) = found(late, odd, waiting(2, 9, since=NOW - 25))
    assert (finding.cause, finding.ranks.first, finding.confidence) == ("CollectiveMismatch", (), "medium")
    assert finding.message == (
        "rank 1 called all_reduce with 5 Float and rank 2 called all_reduce with 4 Float (#9)"
    )


def test_a_mismatch_that_most_ranks_of_the_group_show_names_the_other_side() -> None:
    groups: dict[str, tuple[int, ...]] = {"0": (0, 1, 2, 3, 4)}
    states = [RankState(rank, calls(9, waits_since=NOW - 25), groups) for rank in (1, 2, 3)]
    states.append(RankState(4, calls(9, waits_since=NOW - 25, name="all_gather"), groups))
    (finding,) = found(RankState(0, calls(8), groups), *states)
    assert finding.message == "rank 4 called all_gather where the others called all_reduce (#9)"
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 4",), ("rank 1", "rank 2", "rank 3"))


def test_a_failed_job_has_the_mismatch_as_its_cause_and_not_the_rank_that_noticed_nothing() -> None:
    """gloo lets the rank with the smaller tensor finish: it exits with 0, and the other complains."""
    complaint = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234"
    pods = [
        PodObservation("m-0", "master", 0, rank=0, phase="Succeeded", end=End(0, finished_at=NOW - 2)),
        PodObservation(
            "w-0", "worker", 0, rank=1, phase="Failed", end=End(1, finished_at=NOW - 1), stderr=(complaint,)
        ),
    ]
    states = [
        RankState(0, calls(2), _PAIR, ended=True),
        RankState(1, calls(2, sizes="5 Float"), _PAIR, ended=True),
    ]
    (finding,) = diagnose(observed(*states, phase="Failed", pods=pods))
    assert finding.cause == "CollectiveMismatch"
    assert finding.message == (
        "rank 0 called all_reduce with 4 Float and rank 1 called all_reduce with 5 Float (#2)"
    )
    report = failure_report(observed(*states, phase="Failed", pods=pods))
    assert (report.cause, report.culprit) == ("CollectiveMismatch", None)


_GLOO = "/app/gloo/transport/tcp/pair.cc"
_SEGFAULT = "Fatal Python error: Segmentation fault"


def crashed(*states: RankState, stderr: tuple[str, ...] = (), number: int = 11) -> Finding:
    """Rank 0 crashes in native code and leaves no report of its own; the others lose their connection to it."""
    complaint = f"RuntimeError: [{_GLOO}:561] Connection closed by peer [127.0.0.1]:1234"
    ends = [End(128 + number, signal=number, finished_at=NOW - 2), *[End(1, finished_at=NOW - 1)] * 2]
    pods = [
        PodObservation(
            f"w-{rank}", "worker", rank, rank=rank, phase="Failed", end=end,
            stderr=(complaint,) if rank else stderr,
        )
        for rank, end in enumerate(ends)
    ]  # fmt: skip
    return diagnose(observed(*states, phase="Failed", pods=pods))[0]


def test_a_crash_of_gloo_on_different_sizes_is_a_mismatch() -> None:
    larger = RankState(1, calls(2, sizes="4000 Float"), _GROUPS, ended=True)
    finding = crashed(larger, RankState(2, calls(2), _GROUPS, ended=True))
    assert (finding.cause, finding.ranks.first) == ("CollectiveMismatch", ())
    assert (
        finding.message
        == "rank 1 called all_reduce with 4000 Float and rank 2 called all_reduce with 4 Float (#2)"
    )


def test_a_crash_of_gloo_below_a_collective_is_a_mismatch() -> None:
    frames = ('  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4181 in all_reduce',
              '  File "/app/train.py", line 7 in step')  # fmt: skip
    larger = RankState(1, calls(2, sizes="4000 Float"), _GROUPS, ended=True)
    said = (_SEGFAULT, "", "Current thread 0x00007f71209f7b80 (most recent call first):", *frames)
    finding = crashed(larger, RankState(2, calls(2), _GROUPS, ended=True), stderr=said)
    assert finding.cause == "CollectiveMismatch"


def test_a_crash_after_a_mismatch_that_all_ranks_have_passed_is_its_own_cause() -> None:
    """gloo lets ranks go on whose sizes differ a little."""
    passed = (*calls(2, sizes="5 Float"), Collective(3, "all_reduce", sizes="4 Float", issued_at=NOW - 50))
    states = [RankState(1, passed, _GROUPS, ended=True), RankState(2, calls(3), _GROUPS, ended=True)]
    finding = crashed(*states)
    assert (finding.cause, finding.ranks.first) == ("SegmentationFault", ("rank 0",))


@pytest.mark.parametrize(
    ("number", "said", "cause"),
    [
        (11, (_SEGFAULT, "", "Current thread 0x7f (most recent call first):", '  File "/app/ops.py", line 7 in bad_op'),
         "SegmentationFault"),
        (6, ("terminate called after throwing", "  what():  the index is broken"), "Aborted"),
    ],
    ids=["own frame", "own message"],
)  # fmt: skip
def test_a_crash_of_other_code_is_its_own_cause(number: int, said: tuple[str, ...], cause: str) -> None:
    larger = RankState(1, calls(2, sizes="4000 Float"), _GROUPS, ended=True)
    finding = crashed(larger, RankState(2, calls(2), _GROUPS, ended=True), stderr=said, number=number)
    assert (finding.cause, finding.ranks.first) == (cause, ("rank 0",))
    assert "gloo" not in finding.hint


_ABORTED_IN_GLOO = (
    "Fatal Python error: Aborted", "", "Current thread 0x7f (most recent call first):",
    '  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 4181 in all_reduce',
)  # fmt: skip


@pytest.mark.parametrize(
    ("number", "said", "cause", "before"),
    [
        (11, (), "SegmentationFault", "check versions of torch and CUDA; "),
        (6, _ABORTED_IN_GLOO, "Aborted", ""),
    ],
)
def test_without_reports_a_crash_that_may_be_of_gloo_has_a_hint(
    number: int, said: tuple[str, ...], cause: str, before: str
) -> None:
    """As on a cluster, where the reports of ranks are gone with them."""
    finding = crashed(stderr=said, number=number)
    assert finding.cause == cause
    hint = "gloo also crashes where ranks call a collective with different sizes"
    assert finding.hint.endswith(before + hint) and finding.hint[0].isalpha()


def test_a_failed_job_with_most_reports_names_the_odd_rank() -> None:
    complaint = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234"
    pods = [
        PodObservation(
            f"w-{rank}", "worker", rank, rank=rank, phase="Failed", end=End(1), stderr=(complaint,)
        )
        for rank in range(3)
    ]
    states = [RankState(rank, calls(2), _GROUPS, ended=True) for rank in (0, 2)]
    states.append(RankState(1, calls(2, sizes="5 Float"), _GROUPS, ended=True))
    (finding,) = diagnose(observed(*states, phase="Failed", pods=pods))
    assert finding.message == "rank 1 called all_reduce with 5 Float where the others used 4 Float (#2)"


def test_what_the_supervisor_found_is_the_cause_of_a_timeout() -> None:
    recorded = Finding("RankBehind", "rank 2 never reached all_reduce #418", confidence="medium")
    timeout = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv"
    pods = [PodObservation("m-0", "master", 0, rank=0, phase="Failed", end=End(1), stderr=(timeout,))]
    findings = diagnose(observed(phase="Failed", pods=pods, hang_findings=[recorded]))
    assert [each.cause for each in findings] == ["RankBehind"]


def test_the_hint_names_the_job_and_only_what_still_applies_once_it_is_over() -> None:
    behind = RankState(2, calls(417), _GROUPS, _OWN, idle_since=NOW - 90)
    (running,) = found(waiting(0), waiting(1), behind)
    assert running.hint.startswith("see what it does with `vcjob stacks job`; with `--on-hang restart`")
    (over,) = diagnose(observed(phase="Failed", hang_findings=[running]))
    assert (over.message, over.hint) == (running.message, "")
    loader = msgspec.structs.replace(
        running,
        hint="its DataLoader delivers nothing: try num_workers=0; with `--on-hang restart` it restarts",
    )
    (over,) = diagnose(observed(phase="Failed", hang_findings=[loader]))
    assert over.hint == "its DataLoader delivers nothing: try num_workers=0"


@pytest.mark.parametrize(
    ("backend", "namespace", "reference"),
    [
        ("local", "default", "job"),
        ("local", "team", "job -n team"),
        ("cluster", "default", "job --on cluster -n default"),
    ],
)
def test_a_hint_names_the_job_as_a_command_finds_it(backend: str, namespace: str, reference: str) -> None:
    assert Observation("job", backend, "Running", namespace=namespace).reference == reference


def test_a_failure_of_a_ranks_own_comes_before_a_hang_that_was_seen() -> None:
    recorded = Finding("RankBehind", "rank 2 never reached all_reduce #418", confidence="high")
    error = (
        "Traceback (most recent call last):",
        '  File "/train.py", line 9, in <module>',
        "KeyError: 'label'",
    )
    pods = [PodObservation("m-0", "master", 0, rank=0, phase="Failed", end=End(1), stderr=error)]
    findings = diagnose(observed(phase="Failed", pods=pods, hang_findings=[recorded]))
    assert [each.cause for each in findings] == ["Exception"]


def test_the_report_of_a_hang_below_torchrun_names_ranks_that_are_no_pods() -> None:
    """There are more ranks than pods: rank 1 may be a process of pod rank 0, and pod rank 1 is not to blame."""
    (recorded,) = found(waiting(0), RankState(1, calls(417), _GROUPS, idle_since=NOW - 90), waiting(2))
    pods = [
        PodObservation(f"j-w-{rank}", "w", rank, rank=rank, phase="Failed", end=End(137, stopped=True))
        for rank in range(2)
    ]
    report = failure_report(observed(phase="Failed", pods=pods, hang_findings=[recorded]))
    assert (report.cause, report.culprit) == ("RankBehind", None)
    assert report.message.startswith("rank 1 never reached all_reduce #418")
    assert report.victims == ["rank 0", "rank 2"]


def test_a_completed_job_has_no_finding_of_a_hang_or_a_straggler() -> None:
    recorded = [Finding("RankBehind", "rank 2 is behind"), Finding("Straggler", "rank 1 is slow")]
    assert diagnose(observed(phase="Completed", hang_findings=recorded)) == []


def steps(rank: int, work: float, count: int = 40) -> RankState:
    """A rank that works so many seconds per step; the slowest of them needs 1.8 s, which is what a step takes."""
    times = [number * 1.8 + work for number in range(count)]
    made = [Collective(number + 1, "all_reduce", issued_at=NOW - 99 + at) for number, at in enumerate(times)]
    return RankState(rank, tuple(made), _GROUPS)


def test_a_straggler_is_compared_with_the_median() -> None:
    (finding,) = found(steps(0, 1.0), steps(1, 1.8), steps(2, 1.0))
    assert (finding.cause, finding.confidence) == ("Straggler", "low")
    assert finding.message == "rank 1 is 1.8× slower per step than the median of the others"


def test_ranks_that_take_turns_in_being_slow_have_no_straggler() -> None:
    assert found(steps(0, 1.0), steps(1, 1.3), steps(2, 1.0)) == []
    assert found(steps(0, 1.0, 5), steps(1, 1.8, 5), steps(2, 1.0, 5)) == []


def meeting(*, since: float | None) -> Observation:
    """Rank 0 is connected to its own port; rank 1 has done nothing for a minute and is not."""
    pods = [
        PodObservation("job-master-0", "master", 0, rank=0, phase="Running", connected=True),
        PodObservation("job-worker-0", "worker", 0, rank=1, phase="Running", connected=False),
    ]
    states = (RankState(0), RankState(1, idle_since=NOW - 60))
    return observed(*states, pods=pods, master_listens=True, rendezvous_since=since, hang_after=20.0)


def test_a_rank_that_does_not_connect_is_named() -> None:
    (finding,) = diagnose(meeting(since=NOW - 15), LIVE_RULES)
    assert (finding.cause, finding.ranks.first) == ("RankNotConnected", ("rank 1",))


def test_a_rank_that_waited_long_for_a_late_master_has_time_to_connect() -> None:
    assert diagnose(meeting(since=NOW - 14), LIVE_RULES) == []
    assert diagnose(meeting(since=None), LIVE_RULES) == []
