"""Starting one process of a container, and watching it until it ends.

`Launcher` has two implementations: plain (fork and exec, in this file) and warm (`vcjob.local.warm`: a server that has
imported torch forks the rank). Both return a `Child`: a pid, a descriptor that becomes readable when the process has
ended, an exit code and a process group to signal. Callers do not know which of the two they use.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Mapping
from typing import NamedTuple, NoReturn, Protocol

from vcjob import rank_agent
from vcjob.local.machine import linux
from vcjob.local.pod.storage.mounts import enter_mounts
from vcjob.local.pod.threads import VARIABLE
from vcjob.wellknown.environment import RANK_STATE

_AGENT = os.path.dirname(os.path.abspath(rank_agent.__file__))


class Mount(NamedTuple):
    """A file or folder that the process and its children see at `target`, and nobody else.

    The launcher makes it in a private mount namespace right before the command starts.
    """

    source: str
    target: str
    read_only: bool = False
    #: The size in bytes of a new tmpfs that is mounted in place of `source`; 0 for the kernel's default size.
    memory: int | None = None


class LaunchRequest(NamedTuple):
    """Everything a process needs to start. `env` is the whole environment, not an addition to ours.

    stdin is /dev/null. `mounts` and `cgroups` (paths of `cgroup.procs` files) are entered by the new
    process itself before it runs the command; both are empty where the machine does not allow them.
    `threads` becomes OMP_NUM_THREADS; it is not part of `env`, because a launcher may set it in its own way.
    `start_delay`: seconds to wait before the command, see `rank_delay`.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    stdout: int
    stderr: int
    umask: int | None = None
    mounts: tuple[Mount, ...] = ()
    cgroups: tuple[str, ...] = ()
    threads: int | None = None
    start_delay: float = 0.0


#: Errors that may be over soon: the machine lacks processes, memory or open files.
_TEMPORARY = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class StartFailure(Exception):
    """The command could not be started: it or its folder does not exist, it may not be executed, or no process is
    left.

    `Container` turns it into an ended instance; a `temporary` one is tried again.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.errno = code

    @property
    def temporary(self) -> bool:
        return self.errno in _TEMPORARY


class Child(Protocol):
    """A started process, leader of its own session and process group.

    The plain and the warm launcher return one each; containers and probes do not know which. Its end is seen through
    the descriptor.
    """

    @property
    def pid(self) -> int: ...

    def fileno(self) -> int:
        """A descriptor that becomes readable when the process has ended."""

    def poll(self) -> int | None:
        """None while it runs; then its exit code, or minus the signal that ended it."""

    def signal_group(self, number: int) -> None:
        """Signal the process and all that still belong to its group; nothing happens if none is left."""

    def close(self) -> None:
        """Close the descriptor. The process is not affected."""


class Launcher(Protocol):
    """Starts processes of containers.

    `PlainLauncher` and the warm client implement it with the same results for the program. StartFailure if the
    command cannot run.
    """

    def launch(self, request: LaunchRequest) -> Child:
        """Start it, or raise StartFailure. Returns once the command itself runs."""


class PlainChild:
    """A process that `PlainLauncher` started."""

    def __init__(self, pid: int, launcher: PlainLauncher) -> None:
        self.pid = pid
        #: Set by the launcher when it has reaped the process.
        self.code: int | None = None
        self._launcher = launcher
        self._descriptor = linux.exit_descriptor(pid)

    def fileno(self) -> int:
        return self._descriptor

    def poll(self) -> int | None:
        if self.code is None:
            self._launcher.reap()
        return self.code

    def signal_group(self, number: int) -> None:
        signal_group(self.pid, number)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PlainLauncher:
    """Forks and executes. It also reaps: a subreaper becomes the parent of orphans that it did not start.

    Every shim and the supervisor own one; the warm launcher falls back to it.
    """

    def __init__(self) -> None:
        self._running: dict[int, PlainChild] = {}

    def launch(self, request: LaunchRequest) -> PlainChild:
        parent = os.getpid()
        ends: tuple[int, ...] = ()
        try:
            ends = reading, writing = os.pipe()  # closed by a successful exec; otherwise it carries the error
            pid = os.fork()
        except OSError as error:  # the limit of processes, of memory or of open files
            for end in ends:
                os.close(end)
            message = f"no process can be started: {error.strerror}"
            raise StartFailure(message, error.errno or errno.EAGAIN) from error
        if pid == 0:
            _become(request, parent, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            trouble = pipe.read().decode(errors="replace")
        if trouble:
            os.waitpid(pid, 0)
            code, _, message = trouble.partition(" ")
            raise StartFailure(message, int(code))
        child = self._running[pid] = PlainChild(pid, self)
        return child

    def reap(self) -> None:
        """Reap every process that has ended, including adopted orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self._running.pop(pid, None)
            if child is not None:
                child.code = os.waitstatus_to_exitcode(status)


def signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        # The group is gone, or (macOS) holds nothing but a zombie.
        pass


def _become(request: LaunchRequest, parent: int, report: int) -> NoReturn:
    """In the new process: execute the command, or report the error and exit."""
    step = ""
    try:
        os.setsid()
        linux.die_with_parent(signal.SIGKILL, parent)
        # All of them: a shell ignores some signals in background processes.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(request.stdout, 1)
        os.dup2(request.stderr, 2)
        # Descriptors that were inherited (a pipe of the user's shell, say) must not be held open by the container.
        os.closerange(3, report)
        os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
        for path in request.cgroups:
            with open(path, "w") as procs:
                procs.write("0")
        step = "its volumes could not be mounted: "
        if request.mounts:
            enter_mounts(request.mounts)
            linux.die_with_parent(signal.SIGKILL, parent)  # entering a user namespace may have cleared it
        step = f"workingDir {request.cwd}: "
        os.chdir(request.cwd)
        if request.umask is not None:
            os.umask(request.umask)
        linux.request_long_time_slices()
        time.sleep(request.start_delay)
        step = f"command {request.argv[0]!r}: "
        chosen = {} if request.threads is None else {VARIABLE: str(request.threads)}
        env = {**request.env, **chosen, **_agent(request.env)}
        os.execvpe(request.argv[0], request.argv, env)  # noqa: S606 - this is what a launcher does
    except OSError as error:
        code = error.errno or errno.EINVAL
        if step.startswith("command") and not is_on_path(request.argv[0], request.env):
            code = errno.ENOENT
        if code == errno.ENOENT and step.startswith("command") and _is_script(request.argv[0]):
            reason = "the interpreter in its first line does not exist on this machine"
        else:
            reason = _in_words(code, step)
        _report(report, code, step + reason)
    except Exception as error:
        _report(report, errno.EINVAL, step + str(error))
    finally:  # whatever happens, this process must never continue as a second shim
        os._exit(127)


def _agent(env: Mapping[str, str]) -> dict[str, str]:
    """What makes Python load the agent that reports the state of a rank. A warm rank loads it without this."""
    if RANK_STATE not in env:
        return {}
    return {"PYTHONPATH": f"{_AGENT}:{env['PYTHONPATH']}" if env.get("PYTHONPATH") else _AGENT}


def is_on_path(command: str, env: Mapping[str, str]) -> bool:
    """Whether a folder of PATH has the command.

    A command that no folder has gets "permission denied" too if a folder of PATH cannot be read.
    """
    return os.sep in command or any(
        os.path.lexists(os.path.join(folder, command)) for folder in os.get_exec_path(env)
    )


def _is_script(command: str) -> bool:
    """The file exists, so what the kernel did not find is the interpreter that its first line names."""
    return os.sep in command and os.path.isfile(command)


def _in_words(code: int, step: str) -> str:
    if code == errno.ENOENT:
        return "not found on this machine" if step.startswith("command") else "does not exist on this machine"
    if code == errno.ENOEXEC:
        return "is not a program that this machine can execute"
    return os.strerror(code)


def _report(descriptor: int, code: int, message: str) -> None:
    os.write(descriptor, f"{code} {message}".encode(errors="backslashreplace"))
