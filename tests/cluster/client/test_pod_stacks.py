"""Which processes of a pod are its ranks, from the output of the program that dumps their stacks."""

from __future__ import annotations

import json

import pytest
from aiohttp import web

from tests.cluster.client.test_pod_exec import Serve, exited, serve, status
from vcjob.cluster.client.pod_stacks import read_stacks, stacks_in
from vcjob.errors import BackendError
from vcjob.report.podstate import ContainerState, PodState

__all__ = ["serve"]
MAIN = ContainerState("main", "main", started_at=1.0)
POD = PodState("worker", 0, "train-worker-0", "u", rank=1, containers=[MAIN])


def dump(function: str, pid: int) -> str:
    frames = [{"name": function, "filename": "/train.py", "line": 7}]
    return json.dumps([{"os_thread_id": pid, "thread_name": "MainThread", "frames": frames}])


def section(pid: int, rank: str, elastic: str, text: str) -> str:
    return f"\n@vcjob-stack {pid} {rank} {elastic}\n{text}\n"


def test_the_first_python_process_is_the_rank_and_its_data_loaders_are_not() -> None:
    output = section(12, "1", "-", dump("worker_loop", 12)) + section(7, "1", "-", dump("step", 7))
    (stack,) = stacks_in(output.encode(), POD)
    assert (stack.rank, stack.pid, stack.frames[0].function) == (1, 7, "step")


def test_the_workers_of_torchrun_are_ranks_of_their_own() -> None:
    output = "".join(
        [
            section(1, "1", "-", dump("launch_agent", 1)),
            section(20, "2", "elastic", dump("step", 20)),
            section(21, "3", "elastic", dump("step", 21)),
            section(30, "3", "elastic", dump("worker_loop", 30)),
        ]
    )
    found = [(stack.rank, stack.pid) for stack in stacks_in(output.encode(), POD)]
    assert found == [(2, 20), (3, 21)]


def test_each_thing_that_prevents_a_stack_is_one_sentence() -> None:
    denied = section(7, "1", "-", "Error: Permission denied (os error 13)")
    assert stacks_in(denied.encode(), POD)[0].problem == (
        "this container may not attach to processes: it lacks the capability SYS_PTRACE"
    )
    assert stacks_in(b"", POD)[0].problem == "its process is not Python"
    assert (
        stacks_in(section(7, "-", "-", "").encode(), POD)[0].problem
        == "py-spy: py-spy failed without a message"
    )


@pytest.mark.parametrize(
    "rank", [b"\xff", "²".encode(), b"9" * 5000], ids=["not UTF-8", "superscript", "huge"]
)
def test_a_rank_that_is_no_number_is_not_the_rank_of_a_worker(rank: bytes) -> None:
    workers = section(20, "RANK", "elastic", dump("step", 20)).encode().replace(b"RANK", rank)
    (stack,) = stacks_in(workers, POD)
    assert (stack.rank, stack.pid) == (1, 20)


async def test_a_pod_that_cannot_be_read_costs_no_other_rank_its_stack(serve: Serve) -> None:
    pods = [
        PodState("worker", index, f"train-worker-{index}", "u", rank=index, containers=[MAIN])
        for index in range(3)
    ]

    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        if "train-worker-1/" in request.path:
            return  # the connection is closed
        await socket.send_bytes(b"\1" + section(7, "-", "-", dump("step", 7)).encode())
        await socket.send_bytes(status(status="Success"))

    stacks = (await read_stacks(await serve(script), pods, "team", None)).stacks
    assert [stack.frames[0].function if stack.frames else None for stack in stacks] == ["step", None, "step"]
    assert stacks[1].problem == ("the connection to pod 'train-worker-1' was closed before the command ended")


async def test_that_no_pod_can_be_read_is_an_error(serve: Serve) -> None:
    async def closed(socket: web.WebSocketResponse, request: web.Request) -> None:
        """The connection is closed."""

    with pytest.raises(BackendError, match="was closed before the command ended"):
        await read_stacks(await serve(closed), [POD], "team", None)


async def test_without_the_right_to_exec_it_says_which_right_is_missing(serve: Serve) -> None:
    with pytest.raises(BackendError, match="you may not run commands in pods in the namespace 'team'"):
        await read_stacks(await serve(403), [POD], "team", None)


@pytest.mark.parametrize(
    "answer",
    [
        exited(127),
        status(status="Failure", message='exec: "sh": executable file not found in $PATH'),
    ],
    ids=["no py-spy", "no shell"],
)
async def test_an_image_that_cannot_dump_is_the_problem_of_its_rank(serve: Serve, answer: bytes) -> None:
    async def script(socket: web.WebSocketResponse, request: web.Request) -> None:
        await socket.send_bytes(answer)

    (stack,) = (await read_stacks(await serve(script), [POD], "team", None)).stacks
    assert stack.problem == "its image has no py-spy; add it, or name an image that has it with --image"
