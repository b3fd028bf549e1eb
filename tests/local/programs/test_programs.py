"""The built-in programs: they communicate, check their results and report errors in a sentence."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.ports import port_of, reserve_port

PROGRAMS = ("sendrecv", "allreduce")


def bare(**env: str) -> dict[str, str]:
    drop = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    return {**kept, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", **env}


def group(program: str, world: int, *words: str) -> list[tuple[int, str, str]]:
    with reserve_port() as held:
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port_of(held)), "WORLD_SIZE": str(world)}
        children = [
            subprocess.Popen(
                [sys.executable, "-m", f"vcjob.local.programs.{program}", *words],
                env=bare(**env, RANK=str(rank)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for rank in range(world)
        ]  # fmt: skip
        outputs = [child.communicate(timeout=240) for child in children]
    return [(child.returncode, *output) for child, output in zip(children, outputs)]


@pytest.mark.torch
def test_every_rank_sends_receives_and_says_so() -> None:
    results = group("sendrecv", 3)
    assert [code for code, _, _ in results] == [0, 0, 0], results
    lines = [out for _, out, _ in results]
    assert (
        lines[0]
        == "rank 0 of 3 (gloo): sent 16 numbers to each of 2 ranks, all came back with the expected values\n"
    )
    assert lines[2] == "rank 2 of 3 (gloo): received 16 numbers from rank 0, sent them back plus 2\n"


@pytest.mark.torch
def test_every_rank_adds_up_and_says_so() -> None:
    results = group("allreduce", 2, "1000")
    assert [code for code, _, _ in results] == [0, 0], results
    assert [out.rpartition(",")[0] for _, out, _ in results] == [
        f"rank {rank} of 2 (gloo): sum 3 in each of 1000 numbers" for rank in range(2)
    ]


@pytest.mark.torch
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_world_of_one_is_no_error(program: str) -> None:
    ((code, out, err),) = group(program, 1)
    assert code == 0, err
    assert out.startswith("rank 0 of 1 (gloo): ")


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_a_job_around_it_a_sentence_says_what_is_missing(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"vcjob.local.programs.{program}"],
        env=bare(RANK="0"), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == (
        "WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set: run this in a Job with the pytorch plugin\n"
    )


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_torch_a_sentence_says_how_to_get_it(program: str) -> None:
    hidden = f"import sys; sys.modules['torch'] = None; import vcjob.local.programs.{program} as p; p.main()"
    if program == "allreduce":
        hidden = hidden.replace("main()", "main([])")
    env = bare(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    done = subprocess.run(
        [sys.executable, "-c", hidden], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr == f"PyTorch is not installed for {sys.executable}: pip install torch\n"


@pytest.mark.parametrize("words", [["x"], ["0"], ["1", "2"]])
def test_wrong_use_is_told(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "vcjob.local.programs.allreduce", *words],
        env=bare(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "usage: python -m vcjob.local.programs.allreduce [LENGTH]\n"
