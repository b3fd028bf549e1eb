"""A supervisor that starts while the Job is still being read.

Reading a Job and loading the supervisor's code take about as long as each other, and a machine has more than one
core: so the process is started first and told later which run is its own. It holds nothing until then; if it is
never told, because the Job is not valid or Ctrl-C was pressed, it ends by itself.

This module is loaded before anything else, so it loads nothing itself.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from vcjob.errors import BackendError
from vcjob.local.machine.process import MARK_RUN

if TYPE_CHECKING:
    from vcjob.local.run.run_dir import RunDir

PROCESS_NAME = "vcjob-supervise"
_SOCKET = 4
_LOCK = 3  # run.LOCK_DESCRIPTOR, which would load half of the package


class PrestartedSupervisor:
    """`uid` is the run's: it stands in the environment of all its processes."""

    def __init__(self, uid: str | None = None, *, warm: bool = False) -> None:
        self.uid = uid or _new_uid()
        self._socket, theirs = socket.socketpair()
        # -P: a file random.py in the user's folder must not become our module random.
        argv = [sys.executable, "-P", "-m", "vcjob.local.supervisor", *(["warm"] if warm else [])]
        try:
            self._pid = os.posix_spawn(
                sys.executable,
                argv,
                {**os.environ, MARK_RUN: self.uid},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs.fileno(), _SOCKET),
                    # The number of the lock is taken too: nothing else may get it before the lock comes.
                    *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(_LOCK + 1)),
                ],
                setsid=True,
                # A caller may ignore or block some: SIGCHLD ignored would hide the end of every pod.
                setsigmask=(),
                setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
            )
        except OSError as error:
            self._socket.close()
            raise BackendError(f"the supervisor cannot be started: {error.strerror}") from error
        finally:
            theirs.close()

    def take(self, run: RunDir, lock: int) -> bool:
        """Give it the run and the run's lock; False if it has died. `lock` is closed here."""
        try:
            socket.send_fds(self._socket, [os.fsencode(run.folder)], [lock])
        except OSError:
            return False
        finally:
            os.close(lock)
            self.close()
        return True

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            self._socket.close()
            with suppress(ChildProcessError):  # a caller that ignores SIGCHLD: the kernel has collected it
                os.waitpid(self._pid, 0)  # it has left a fork behind, first thing, and ended


def wait_for_run() -> str | None:
    """In the new process: wait for a run, take its lock and its log; None if there will be none."""
    with socket.socket(fileno=_SOCKET) as seat:
        try:
            folder, descriptors, _, _ = socket.recv_fds(seat, 1 << 16, 1)
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
    os.close(log)  # it is none of these two: they were open all the time
    return os.fsdecode(folder)


def _new_uid() -> str:
    """As uuid.uuid4, whose module takes longer to load than a supervisor to start."""
    number = int.from_bytes(os.urandom(16), "big")
    number = number & ~(0xF000 << 64) | 4 << 76
    text = f"{number & ~(0xC000 << 48) | 0x8000 << 48:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
