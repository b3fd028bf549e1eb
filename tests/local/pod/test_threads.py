"""Ranks share the cores of this machine: OMP_NUM_THREADS is set, unless the user or a launcher sets it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.conftest import Start, container, job, python, ranks, task, texts
from vcjob.local.pod.threads import cores, threads_of

RANK = {"RANK": "0", "WORLD_SIZE": "4"}
TELL = "import os; print(os.environ.get('OMP_NUM_THREADS'))"


@pytest.mark.parametrize(
    ("ranks_there", "machine", "share"), [("2", 16, 8), ("3", 16, 5), ("16", 16, 1), ("40", 16, 1)]
)
def test_the_cores_are_shared_out(ranks_there: str, machine: int, share: int) -> None:
    assert threads_of({}, ["python", "a.py"], {"RANK": "0", "WORLD_SIZE": ranks_there}, machine) == share


@pytest.mark.parametrize("cpu", ["2", "2500m", 2])
def test_a_limit_of_the_container_holds_too(cpu: str | int) -> None:
    limited = {"resources": {"limits": {"cpu": cpu}}}
    assert threads_of(limited, ["python", "a.py"], RANK, 64) == 2
    assert threads_of(limited, ["python", "a.py"], RANK, 4) == 1


@pytest.mark.parametrize("number", ["²", "٣", "-4", "9" * 5000])
def test_a_world_size_that_is_no_number_means_a_single_rank(number: str) -> None:
    assert threads_of({}, ["python", "a.py"], {"RANK": "0", "WORLD_SIZE": number}, 16) is None


def test_less_than_a_core_is_one_thread() -> None:
    assert threads_of({"resources": {"limits": {"cpu": "100m"}}}, ["python"], RANK, 64) == 1


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"WORLD_SIZE": "4"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "0", "WORLD_SIZE": "many"},
        {**RANK, "OMP_NUM_THREADS": "7"},
        {**RANK, "OMP_NUM_THREADS": ""},
        {**RANK, "MKL_NUM_THREADS": "7"},
        {**RANK, "PET_NPROC_PER_NODE": "2"},
    ],
)
def test_nothing_is_set_for_one_alone_or_where_somebody_has_chosen(env: dict[str, str]) -> None:
    assert threads_of({}, ["python", "a.py"], env, 16) is None


@pytest.mark.parametrize(
    "argv",
    [
        ["torchrun", "train.py"],
        ["/opt/venv/bin/torchrun", "--nproc-per-node=2", "train.py"],
        ["sh", "-c", "cd src && torchrun --nproc-per-node=2 train.py"],
        ["python", "-m", "torch.distributed.run", "train.py"],
        ["accelerate", "launch", "train.py"],
    ],
)
def test_a_launcher_inside_the_pod_chooses_for_its_own_ranks(argv: list[str]) -> None:
    assert threads_of({}, argv, RANK, 16) is None


def test_a_program_whose_name_only_sounds_like_a_launcher_is_none() -> None:
    assert threads_of({}, ["python", "my_torchrun_like.py"], RANK, 16) == 4


def _notes(handle: Any) -> list[str]:
    return [note for note in handle.notes() if "OMP_NUM_THREADS" in note]


def test_every_rank_gets_its_share_and_it_is_said_once(
    finish: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    handle = finish(job(*ranks(python(TELL))))
    share = max(1, cores() // 3)
    assert texts(handle) == [str(share)] * 3
    (note,) = _notes(handle)
    assert note.startswith("3 ranks share ") and f"OMP_NUM_THREADS is {share} for each" in note
    (event,) = [event for event in handle.events() if event["message"] == note]
    assert (event["type"], event["reason"]) == ("Normal", "CoresShared")


def test_the_share_of_the_cores_is_the_first_note(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    handle = finish(job(*ranks(python(TELL), securityContext={"runAsUser": 12345})))
    notes = [
        note for note in handle.notes() if not note.startswith("port ")
    ]  # another test may hold the port
    assert notes[0].startswith("3 ranks share ") and len(notes) > 1


def test_what_the_shell_has_set_stays(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "11")
    handle = finish(job(*ranks(python(TELL), workers=1)))
    assert texts(handle) == ["11", "11"]
    assert _notes(handle) == []


def test_what_the_job_has_set_stays(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    own = python(TELL, env=[{"name": "OMP_NUM_THREADS", "value": "5"}])
    handle = finish(job(*ranks(own, workers=1)))
    assert texts(handle) == ["5", "5"]
    assert _notes(handle) == []


def test_a_pod_that_is_no_rank_gets_nothing(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    handle = finish(job(task("a", container("echo ${OMP_NUM_THREADS-none}"), replicas=2)))
    assert texts(handle) == ["none", "none"]
