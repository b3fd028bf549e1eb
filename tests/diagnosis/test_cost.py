"""The cost of a diagnosis, counted: linear in the ranks, with a bounded number of lines of each."""

from __future__ import annotations

import pytest

from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.observation import Collective, End, Observation, PodObservation, RankState
from vcjob.diagnosis.text.prefixes import plain

_ERROR = (
    "Traceback (most recent call last):",
    '  File "/train.py", line 9, in <module>',
    "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234",
)


#: What torchrun prints about a worker that native code ended.
_TABLE = (
    "Traceback (most recent call last):",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
    "Root Cause (first observed failure):",
    "  rank      : 3 (local_rank: 1)",
    "  exitcode  : -6 (pid: 815)",
)
#: `{}`: the error of the rank.
_OUTPUT = {"raised": (*_ERROR[:2], "{}"), "crashed": ("  what():  {}", *_TABLE)}


def failure(ranks: int, output: tuple[str, ...]) -> Observation:
    """Rank 1 failed with an error of its own; all others lost their connection to it."""
    pods = [
        PodObservation(
            f"w-{rank}",
            "worker",
            rank,
            rank=rank,
            phase="Failed",
            end=End(1, finished_at=100.0 + rank / 1000),
            stderr=tuple(
                line.format("ValueError: loss is NaN" if rank == 1 else _ERROR[-1]) for line in output
            ),
        )
        for rank in range(ranks)
    ]
    return Observation("job", "local", "Failed", now=200.0, pods=pods)


def counted(ranks: int, output: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> int:
    lines = 0

    def counting(line: str) -> str:
        nonlocal lines
        lines += 1
        return plain(line)

    with monkeypatch.context() as patched:
        for module in ("crash", "torchrun", "tracebacks"):
            patched.setattr(f"vcjob.diagnosis.text.{module}.plain", counting)
        (finding,) = diagnose(failure(ranks, output))
    assert finding.ranks.first == ("rank 1",) and len(finding.ranks.victims) == ranks - 1
    return lines


@pytest.mark.parametrize("output", _OUTPUT.values(), ids=_OUTPUT)
def test_a_failure_of_a_thousand_ranks_names_the_first_and_reads_every_line_a_few_times(
    output: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    few, many = counted(100, output, monkeypatch), counted(1000, output, monkeypatch)
    assert 0 < many <= 10 * few
    assert many <= 1000 * len(output) * 5


class CountedGroups(dict[str, tuple[int, ...]]):
    """The groups of a rank; counts how often they are read."""

    reads = 0

    def items(self):  # type: ignore[no-untyped-def]  # a count, nothing else
        CountedGroups.reads += 1
        return super().items()


def test_a_hang_of_a_thousand_ranks_reads_every_report_once_per_rule() -> None:
    groups = CountedGroups({"0": tuple(range(1000))})
    done = tuple(Collective(number, "all_reduce", issued_at=50.0) for number in range(1, 9))
    waits = Collective(9, "all_reduce", issued_at=100.0, done=False)
    states = [RankState(rank, (*done, waits) if rank != 3 else done, groups) for rank in range(1000)]
    states[3].idle_since = 100.0
    observation = Observation("job", "local", "Running", now=200.0, rank_states=states)
    (finding,) = diagnose(observation, LIVE_RULES)
    assert finding.message == "rank 3 never reached all_reduce #9; all others have waited in it for 100 s"
    assert CountedGroups.reads <= 2 * len(states)
