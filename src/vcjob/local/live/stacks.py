"""Reads the Python stack of every rank of a local job, with py-spy, from outside the rank.

py-spy stops a process for a few milliseconds and changes nothing in it. Whatever prevents a stack from being read
becomes the rank's `problem`, one sentence. Many kernels let a user attach only to processes that the own process has
started, and `vcjob stacks` has not started the ranks: then the stack that the agent in the rank reported last is used. Only
a missing py-spy is an error, where no rank has reported a stack. Used by the SDK.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import msgspec

from vcjob.diagnosis.collect import newest_attempts
from vcjob.diagnosis.py_spy import NOT_PYTHON, main_thread, problem_of
from vcjob.diagnosis.rank_report import RankReport
from vcjob.diagnosis.stacks import RankStack, StackReport
from vcjob.errors import BackendError
from vcjob.local.live.rank_process import main_container, python_processes
from vcjob.local.run.run_dir import RunDir
from vcjob.report.podstate import PodState

_SECONDS = 10.0
_AT_ONCE = 4

Reports: TypeAlias = Callable[[PodState], Sequence[RankReport]]


def read_stacks(pods: Sequence[PodState], reports: Reports | None = None) -> StackReport:
    """The stack of every rank in these running pods; BackendError where py-spy is missing.

    `reports`: what the agents of a pod's ranks have reported, for ranks that py-spy cannot read.
    """
    if sys.platform != "linux":
        raise BackendError("the stacks of ranks can be read on Linux only")
    py_spy = find_py_spy()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda pod: _stacks_of_pod(pod, py_spy, reports), pods))
    stacks = [stack for each in found for stack in each]
    if py_spy is None and not any(stack.frames for stack in stacks):
        raise BackendError(
            "py-spy is not installed, and without it the stack of a rank cannot be read",
            hint="install it with `pip install py-spy`",
        )
    return StackReport(tuple(sorted(stacks, key=lambda s: (s.rank is None, s.rank or 0, s.pod))))


def find_py_spy() -> str | None:
    """py-spy of this Python environment, else of PATH."""
    own = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return own if os.access(own, os.X_OK) else shutil.which("py-spy")


def _stacks_of_pod(pod: PodState, py_spy: str | None, reports: Reports | None) -> list[RankStack]:
    processes = python_processes(pod)
    if not processes:
        problem = NOT_PYTHON if main_container(pod) is not None else "its container is not running"
        return [RankStack(pod.name, pod.rank, problem=problem)]
    stacks = [_dump(pod.name, rank, pid, py_spy) for rank, pid in processes]
    if reports is None or not any(stack.problem for stack in stacks):
        return stacks
    reported = reports(pod)
    return [_reported(stack, reported) for stack in stacks]


def _reported(stack: RankStack, reports: Sequence[RankReport]) -> RankStack:
    """The stack that a process reported last, where it could not be read and has reported one."""
    if not stack.problem or not os.path.exists(f"/proc/{stack.pid}"):
        return stack
    for report in reports:
        if report.pid == stack.pid and report.state.stack:
            ago = max(0.0, time.time() - report.at)
            return msgspec.structs.replace(stack, frames=report.state.stack, reported_ago=round(ago, 1))
    return stack


def _dump(pod: str, rank: int | None, pid: int, py_spy: str | None) -> RankStack:
    if py_spy is None:
        return RankStack(pod, rank, pid, problem="py-spy is not installed")
    try:
        ran = subprocess.run(
            [py_spy, "dump", "--json", "--pid", str(pid)],
            capture_output=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return RankStack(pod, rank, pid, problem=f"py-spy did not finish within {_SECONDS:g} s")
    except OSError as error:
        return RankStack(pod, rank, pid, problem=f"py-spy cannot be run: {error.strerror}")
    if ran.returncode != 0:
        return RankStack(pod, rank, pid, problem=problem_of(ran.stderr.decode(errors="replace")))
    frames = main_thread(ran.stdout, pid)
    if frames is None:
        return RankStack(pod, rank, pid, problem="the output of py-spy cannot be understood")
    return RankStack(pod, rank, pid, frames)


def main(folder: str) -> None:
    """For the supervisor, which must not wait for py-spy: print the stacks of a run's ranks as JSON."""
    try:
        found = read_stacks([pod for pod in newest_attempts(RunDir(folder).pods()) if pod.phase == "Running"])
    except BackendError as error:
        sys.exit(error.message)
    sys.stdout.buffer.write(msgspec.json.encode(found.stacks))


if __name__ == "__main__":
    main(sys.argv[1])
