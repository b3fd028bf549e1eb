"""Stacks of ranks, grouped by where they are."""

from __future__ import annotations

from vcjob.diagnosis.observation import Frame
from vcjob.diagnosis.stacks import RankStack, StackReport, rank_ranges

_TORCH = "/venv/lib/python3.11/site-packages/torch"
_ALL_REDUCE = (
    Frame("all_reduce", f"{_TORCH}/distributed/distributed_c10d.py", 3018),
    Frame("wrapper", f"{_TORCH}/distributed/c10d_logger.py", 81),
    Frame("train", "/home/me/train.py", 41),
    Frame("<module>", "/home/me/train.py", 60),
)
_DATA = (
    Frame("poll", "/usr/lib/python3.11/multiprocessing/connection.py", 257),
    Frame("_BaseDataLoaderIter.__next__", f"{_TORCH}/utils/data/dataloader.py", 733),
    Frame("train", "/home/me/train.py", 17),
)
_SLEEP = (Frame("_wait", "/usr/lib/python3.11/subprocess.py", 99), Frame("save", "/home/me/io.py", 5))


def report(*stacks: RankStack) -> list[str]:
    return [str(group) for group in StackReport(stacks).groups()]


def test_ranks_at_the_same_place_are_one_group_and_the_largest_comes_first() -> None:
    waiting = [RankStack(f"worker-{rank}", rank, frames=_ALL_REDUCE) for rank in (1, 2, 3)]
    assert report(RankStack("master-0", 0, frames=_DATA), *waiting) == [
        "ranks 1-3 wait in all_reduce, train.py:41",
        "rank 0 is in DataLoader, train.py:17",
    ]


def test_a_rank_outside_torch_is_in_the_users_own_function_and_what_that_calls() -> None:
    assert report(RankStack("a-0", frames=_SLEEP)) == [
        "a-0 is in save, io.py:5 (calls _wait, subprocess.py:99)"
    ]
    assert report(RankStack("a-0", 0, frames=_SLEEP[1:])) == ["rank 0 is in save, io.py:5"]


def test_a_stack_without_code_of_the_user_names_its_innermost_frame() -> None:
    assert report(RankStack("a-0", 0, frames=_SLEEP[:1])) == ["rank 0 is in _wait, subprocess.py:99"]
    assert report(RankStack("a-0", 0)) == ["rank 0 runs no Python code"]


def test_a_stack_that_cannot_be_read_says_why() -> None:
    shells = [RankStack(f"w-{n}", n, problem="its process is not Python") for n in (0, 1)]
    assert report(*shells) == ["ranks 0-1 cannot be read: its process is not Python"]


def test_json_has_every_stack_and_the_groups() -> None:
    found = StackReport((RankStack("master-0", 0, 7, _DATA), RankStack("w-0", 1, problem="no"))).to_dict()
    assert [group["ranks"] for group in found["groups"]] == [[0], [1]]
    assert found["groups"][0]["pods"] == ["master-0"]
    assert found["ranks"][0]["frames"][2] == {"function": "train", "file": "/home/me/train.py", "line": 17}
    assert found["ranks"][1] == {"pod": "w-0", "rank": 1, "problem": "no"}


def test_consecutive_ranks_are_ranges() -> None:
    assert rank_ranges([5, 0, 2, 3]) == "0, 2-3, 5"
    assert rank_ranges([]) == ""
