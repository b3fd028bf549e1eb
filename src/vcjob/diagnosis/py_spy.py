"""What py-spy prints: the frames of a process's main thread, or why they cannot be read. Pure.

Used by both backends, which run py-spy where the rank is.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from vcjob.diagnosis.observation import Frame

NOT_PYTHON = "its process is not Python"
_NOT_PERMITTED = (
    "this user may not attach to its process: run `vcjob stacks` as root, "
    "or allow it with `sysctl kernel.yama.ptrace_scope=0`"
)
_NO_PTRACE = "this container may not attach to processes: it lacks the capability SYS_PTRACE"
_DEEPEST = 200


class _PySpyFrame(msgspec.Struct):
    name: str
    filename: str
    line: int


class _PySpyThread(msgspec.Struct):
    os_thread_id: int | None
    frames: list[_PySpyFrame]
    thread_name: str | None = None


_THREADS = msgspec.json.Decoder(list[_PySpyThread])


def main_thread(output: bytes, pid: int) -> tuple[Frame, ...] | None:
    """The frames of the main thread in py-spy's JSON, innermost first; None where it cannot be understood."""
    try:
        threads: list[Any] = _THREADS.decode(output)
    except msgspec.MsgspecError:
        return None
    for thread in threads:
        if thread.os_thread_id == pid or thread.thread_name == "MainThread":
            return tuple(Frame(each.name, each.filename, each.line) for each in thread.frames[:_DEEPEST])
    return ()


def problem_of(error: str, *, in_container: bool | None = None) -> str:
    """Why py-spy failed, from its standard error, as one sentence. `in_container`: not run by this user but in a pod."""
    lowered = error.lower()
    if "python version" in lowered:
        return NOT_PYTHON
    if "permission denied" in lowered or "operation not permitted" in lowered:
        contained = os.geteuid() == 0 if in_container is None else in_container
        return _NO_PTRACE if contained else _NOT_PERMITTED
    if "check that the process is running" in lowered or "no such process" in lowered:
        return "its process has ended"
    first = next((line for line in error.splitlines() if line.strip()), "py-spy failed without a message")
    return f"py-spy: {first.removeprefix('Error: ').strip()[:200]}"
