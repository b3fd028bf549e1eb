"""Which processes of a pod are its ranks, from the output of the program that dumps their stacks."""

from __future__ import annotations

import json

from vcjob.cluster.client.pod_stacks import stacks_in
from vcjob.report.podstate import PodState

POD = PodState("worker", 0, "train-worker-0", "u", rank=1)


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
