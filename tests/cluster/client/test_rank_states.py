"""What the program that reads the reports of ranks prints, and what prevents it from being read."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.cluster.client.test_pod_exec import Serve, exited, serve, status
from vcjob.cluster.client import rank_states
from vcjob.cluster.client.rank_states import read_rank_states, states_in
from vcjob.errors import BackendError
from vcjob.plugins.flight_recorder import REPORT_FOLDER
from vcjob.report.podstate import ContainerState, PodState

__all__ = ["serve"]
NOW = 1000.0
MAIN = ContainerState("main", "main", started_at=1.0)
POD = PodState("worker", 0, "train-worker-0", "u", rank=1, containers=[MAIN])
_ENTRY = {
    "collective_seq_id": 4,
    "profiling_name": "gloo:all_reduce",
    "process_group": ["0", "default_pg"],
    "time_created_ns": 900 * 10**9,
}


def report(rank: int = 1, **fields: Any) -> str:
    return json.dumps(
        {"pid": 7, "rank": rank, "at": 950.0, "idle_since": 910.0, "stack_since": 905.0, "entries": [_ENTRY]}
        | fields
    )


def output(*reports: str, at: int = int(NOW), state: str = "S") -> bytes:
    return (f"@vcjob-time {at}\n" + "".join(f"\n@vcjob-rank {state}\n{each}" for each in reports)).encode()


def test_each_report_becomes_the_state_of_a_rank() -> None:
    first, second = states_in(output(report(), report(3)), NOW, 0.0)
    assert (first.rank, second.rank, first.idle_since, first.paused) == (1, 3, 910.0, False)
    (call,) = first.collectives
    assert (call.name, call.sequence, call.issued_at, call.done) == ("all_reduce", 4, 900.0, False)


def test_the_times_of_a_node_with_another_clock_become_those_of_the_caller() -> None:
    (state,) = states_in(output(report(), at=int(NOW) - 100), NOW, 0.0)
    assert state.collectives[0].issued_at == pytest.approx(1000.0, abs=1)
    assert state.idle_since == pytest.approx(1010.0, abs=1)


def test_a_stopped_process_is_paused_and_a_report_of_an_earlier_container_is_left_out() -> None:
    assert states_in(output(report(), state="T"), NOW, 0.0)[0].paused
    assert states_in(output(report()), NOW, 960.0) == []
    assert states_in(output(report(ended=True)), NOW, 0.0) == []


@pytest.mark.parametrize("text", [b"", b"nonsense", output("{"), output(report()[:-9]), output("\xff")])
def test_a_damaged_report_is_left_out(text: bytes) -> None:
    assert states_in(text, NOW, 0.0) == []


def test_the_program_prints_the_reports_of_processes_that_exist(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as alive:
        try:
            (tmp_path / f"rank-state.{alive.pid}.json").write_text(report())
            (tmp_path / "rank-state.999999999.json").write_text(report(2))
            program = rank_states._PROGRAM.replace(REPORT_FOLDER, str(tmp_path))
            done = subprocess.run(["sh", "-c", program], capture_output=True, check=True)
        finally:
            alive.kill()
    assert done.stderr == b""
    assert [state.rank for state in states_in(done.stdout, NOW, 0.0)] == [1]
    gone = subprocess.run(["sh", "-c", rank_states._PROGRAM.replace(REPORT_FOLDER, "/nowhere")], check=False)
    assert gone.returncode == 3


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (exited(3), "train-worker-0 was started without `--flight-recorder`"),
        (exited(1), "the reports of train-worker-0 cannot be read: exit code 1"),
        (
            status(status="Failure", message='exec: "sh": executable file not found in $PATH'),
            "the image of train-worker-0 has no shell",
        ),
    ],
    ids=["no folder", "failed", "no shell"],
)
async def test_what_prevents_a_pod_from_being_read_is_one_sentence(
    serve: Serve, answer: bytes, problem: str
) -> None:
    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        await socket.send_bytes(answer)

    assert (await read_rank_states(await serve(script), [POD], "team")) == ([], (problem,))


async def test_without_the_right_to_exec_it_says_which_right_is_missing(serve: Serve) -> None:
    with pytest.raises(BackendError, match="you may not run commands in pods in the namespace 'team'"):
        await read_rank_states(await serve(403), [POD], "team")


async def test_a_pod_whose_node_does_not_answer_does_not_hide_the_others(serve: Serve) -> None:
    states, (problem,) = await read_rank_states(await serve(500), [POD], "team")
    assert states == [] and problem.startswith("train-worker-0: ")


async def test_few_pods_are_read_at_the_same_time(serve: Serve) -> None:
    open_now = most = 0

    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await socket.send_bytes(b"\1" + output(report()))
        open_now -= 1
        await socket.send_bytes(exited(0))

    pods = [POD] * 40
    found = await read_rank_states(await serve(script), pods, "team")
    assert len(found.states) + len(found.problems) == 40 and most <= 8
