"""Rank 0 starts slightly before the other ranks."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.local.conftest import PATIENCE, Start, job, ranks
from vcjob.local.pod.launch import LaunchRequest, PlainLauncher
from vcjob.local.pod.rank_delay import start_delay
from vcjob.local.pod.threads import cores


def rank_env(rank: int | None, ranks: int = 3) -> dict[str, str]:
    return {"RANK": str(rank), "WORLD_SIZE": str(ranks)}


def test_the_other_ranks_start_behind_the_first_and_those_without_a_core_further_behind() -> None:
    starts = [start_delay(rank_env(rank, 6), 4) for rank in range(6)]
    assert starts[0] == 0.0
    assert 0 < starts[1] == starts[2] == starts[3] < starts[4] == starts[5]


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"RANK": "1"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "1", "WORLD_SIZE": "1"},
        {"RANK": "-1", "WORLD_SIZE": "4"},
        {"RANK": "one", "WORLD_SIZE": "4"},
        {"RANK": "²", "WORLD_SIZE": "4"},
    ],
)
def test_what_is_no_rank_of_several_is_not_held_back(env: dict[str, str]) -> None:
    assert start_delay(env, 2) == 0.0


def test_a_command_that_is_held_back_does_not_run_before(tmp_path: Path) -> None:
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_RDWR)
    began = time.monotonic()
    child = PlainLauncher().launch(LaunchRequest(["true"], dict(os.environ), "/", out, out, start_delay=0.2))
    assert time.monotonic() - began >= 0.2
    os.waitpid(child.pid, 0)
    child.close()
    os.close(out)


def test_a_worker_that_starts_with_its_master_starts_behind_it(start: Start) -> None:
    handle = start(job(*ranks("true", workers=2)))
    handle.wait(timeout=PATIENCE)
    workers = [pod for pod in handle.pods() if pod.task == "worker"]
    assert [pod.rank for pod in workers] == [1, 2]
    for pod in workers:
        held_back = start_delay(rank_env(pod.rank), cores())
        assert pod.started_at is not None and pod.started_at - pod.created_at >= held_back
