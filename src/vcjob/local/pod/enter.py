"""Running a command next to a rank of this machine: in its environment, its folder and its mounts.

`vcjob exec` uses it through the SDK. The command and what it started are killed when the container ends, as in a cluster;
a command whose `vcjob exec` was killed has the marks of the run in its environment, by which it is found. Linux only:
elsewhere the environment of a process cannot be read reliably.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence

from vcjob.errors import BackendError
from vcjob.local.machine import linux, process
from vcjob.local.pod.launch import is_on_path
from vcjob.local.pod.storage.mounts import checked, libc
from vcjob.report.podstate import ContainerState, PodState
from vcjob.wellknown import environment

_NAMESPACES = (("user", 0x10000000), ("mnt", 0x00020000))


def run_in_container(pod: PodState, container: ContainerState, command: Sequence[str]) -> int:
    """The exit code of the command (128 + N after signal N); its streams are this process's own."""
    if sys.platform != "linux":
        raise BackendError("a command can be run next to a rank on Linux only")
    pid, started = container.pid, container.pid_start
    not_running = BackendError(f"the container {container.name!r} of {pod.name} is not running")
    if pid is None or started is None:
        raise not_running
    try:
        end = linux.process_descriptor(pid)
    except OSError as error:
        raise not_running from error
    try:
        if not process.is_same(pid, started):
            raise not_running
        code = _run(pod, pid, end, command)
    finally:
        os.close(end)
    if code is None:
        raise BackendError(f"the command was ended with the container {container.name!r} of {pod.name}")
    return 128 - code if code < 0 else code


def _run(pod: PodState, pid: int, end: int, command: Sequence[str]) -> int | None:
    """The command's return code; None if the process `pid`, to which the descriptor `end` belongs, ended first."""
    try:
        env = _environment(pid)
        namespaces = [
            (os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), flag)
            for name, flag in _NAMESPACES
            if _differs(pid, name)
        ]
        # Held open: their paths mean something else on the other side.
        root, cwd = (os.open(f"/proc/{pid}/{name}", os.O_PATH) for name in ("root", "cwd"))
    except OSError as error:
        raise BackendError(f"the process of {pod.name} cannot be entered: {error}") from error
    if env.get(environment.POD_UID) != pod.uid:
        raise BackendError(
            f"{pod.name} was forked from a warm process, and its environment cannot be read",
            hint="run the job without --warm",
        )

    def enter() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for descriptor, flag in namespaces:
            checked(libc.setns(descriptor, flag), "enter namespace")
        if namespaces:
            os.chdir(root)
            os.chroot(".")
        os.chdir(cwd)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        with subprocess.Popen(list(command), env=env, preexec_fn=enter) as child:  # noqa: PLW1509 - setns needs it
            if _ends_before(child.pid, end):
                return child.wait()
            _kill(child)
            return None
    except (OSError, subprocess.SubprocessError) as error:
        if isinstance(error, FileNotFoundError) or not is_on_path(command[0], env):
            raise BackendError(f"command {command[0]!r}: not found in {pod.name}") from error
        raise BackendError(f"command {command[0]!r} cannot be run in {pod.name}: {error}") from error
    finally:
        signal.signal(signal.SIGINT, before)
        for descriptor in (*(descriptor for descriptor, _ in namespaces), root, cwd):
            os.close(descriptor)


def _ends_before(pid: int, end: int) -> bool:
    """Whether this child ends before the process of the descriptor does."""
    own = linux.process_descriptor(pid)
    try:
        waiting = select.poll()
        waiting.register(own, select.POLLIN)
        waiting.register(end, select.POLLIN)
        return own in dict(waiting.poll())
    finally:
        os.close(own)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill the command and what it has started. It is stopped first, so that it starts nothing more."""
    child.send_signal(signal.SIGSTOP)
    process.kill_until_gone(lambda: process.descendants(child.pid))
    child.kill()


def _environment(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _differs(pid: int, namespace: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}")
