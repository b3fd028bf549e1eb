"""Starts a supervisor's process, before its run is known if possible, and hands the run over to it.

Reading a Job and loading the supervisor's code take about the same time, and a machine has more than one core. So
`vcjob run` starts the process first and hands the run over when it exists. Until then the process holds nothing; if it
gets no run, because the Job is not valid or Ctrl-C was pressed, it ends on its own.

`wait_for_run` is the other side, in the new process (`__main__`). This module is loaded before the rest of the package,
so it loads as little as possible. Raises BackendError where the process cannot be started or has died.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from vcjob.errors import BackendError
from vcjob.local.machine import process

if TYPE_CHECKING:
    from vcjob.local.run.run_dir import RunDir

PROCESS_NAME = "vcjob-supervise"
#: Each of them ends the job as `vcjob stop` does; SIGQUIT without the grace period.
ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
_SOCKET = 4
_LOCK = 3  # run_dir.LOCK_DESCRIPTOR, whose module would load half of the package


class PrestartedSupervisor:
    """A supervisor's process that waits for its run. `uid` is the run's, which all its processes carry as a mark.

    `vcjob run` starts it before it loads the Job. If there will be no run, `close` ends it. BackendError if it cannot
    be started or has died.
    """

    def __init__(self, uid: str | None = None, *, warm: bool = False) -> None:
        self.uid = uid or _new_uid()
        self._socket, theirs = socket.socketpair()
        # -P: a file random.py in the user's folder must not become our module random.
        argv = [sys.executable, "-P", "-m", "vcjob.local.supervisor", *(["warm"] if warm else [])]
        try:
            self._pid = process.spawn_session(
                sys.executable,
                argv,
                {**os.environ, process.MARK_RUN: self.uid},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), _SOCKET),
                    # The number of the lock is taken too: nothing else may get it before the lock comes.
                    *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(_LOCK + 1)),
                ],
                # Blocked from its first instruction on: the supervisor unblocks them when it can end the job properly.
                setsigmask=(signal.SIGHUP, *ENDING_SIGNALS),
                # A caller may ignore some: SIGCHLD ignored would hide the end of every pod.
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except OSError as error:
            self._socket.close()
            raise BackendError(f"the supervisor cannot be started: {error.strerror}") from error
        finally:
            theirs.close()

    def hand_over(self, run: RunDir, lock: int) -> None:
        """Give it the run and the run's lock, which is closed here."""
        try:
            socket.send_fds(self._socket, [os.fsencode(run.folder)], [lock])
        except OSError as error:
            raise BackendError("the supervisor exited before it received the run") from error
        finally:
            os.close(lock)
            self.close()

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._socket.close()
            with suppress(ChildProcessError):  # the caller ignores SIGCHLD, so the kernel has reaped it
                os.waitpid(self._pid, 0)  # it forks the supervisor first of all, and exits


def start_supervisor(run: RunDir, lock: int, prestarted: PrestartedSupervisor | None = None) -> None:
    """Hand the run and its lock to a supervisor: the prestarted one, or a new one. `lock` is closed here."""
    try:
        prestarted = prestarted or PrestartedSupervisor(run.uid)
    except BackendError:
        os.close(lock)
        raise
    prestarted.hand_over(run, lock)


def wait_for_run() -> str | None:
    """In the new process: wait for a run, take its lock and open its log; None if there will be no run."""
    with socket.socket(fileno=_SOCKET) as connection:
        try:
            folder, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 1)
        except OSError:
            return None
    if not descriptors:
        return None
    os.dup2(descriptors[0], _LOCK, inheritable=False)
    os.close(descriptors[0])
    path = os.path.join(os.fsdecode(folder), "supervisor.log")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)  # it is neither of these two, which were open already
    return os.fsdecode(folder)


def _new_uid() -> str:
    """As uuid.uuid4, whose module takes longer to load than a supervisor to start."""
    number = int.from_bytes(os.urandom(16), "big")
    number = number & ~(0xF000 << 64) | 4 << 76
    text = f"{number & ~(0xC000 << 48) | 0x8000 << 48:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
