"""Starting a supervisor, so that it lives on its own."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Mapping

from vcjob.errors import GroundError
from vcjob.local.files import PRIVATE_FILE
from vcjob.local.process import MARK_RUN
from vcjob.local.run import LOCK_DESCRIPTOR, Run


def start_supervisor(run: Run, lock: int) -> None:
    """Hand the run and its lock to a new supervisor, in a session of its own. `lock` is closed here."""
    log = os.open(run.path("supervisor.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
    null = os.open(os.devnull, os.O_RDONLY)
    # The copy on descriptor 3 is the only one that the supervisor gets: one more would go on to its ranks.
    high = fcntl.fcntl(lock, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(lock)
    lock = high
    # -P: a file random.py in the user's folder must not become our module random.
    argv = [sys.executable, "-P", "-m", "vcjob.local.detached", run.folder]
    try:
        pid = os.posix_spawn(
            sys.executable,
            argv,
            {**os.environ, MARK_RUN: run.uid},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
                (os.POSIX_SPAWN_DUP2, lock, LOCK_DESCRIPTOR),
            ],
            setsid=True,
        )
        os.waitpid(pid, 0)  # it forks first thing and leaves the fork to itself
    except OSError as error:
        raise GroundError(f"the supervisor cannot be started: {error.strerror}") from error
    finally:
        for descriptor in (lock, log, null):
            os.close(descriptor)


def caller_environment() -> dict[str, str]:
    """The environment that ranks inherit; the venv that runs us counts as active, also when it was not activated."""
    env: Mapping[str, str] = os.environ
    if sys.prefix == sys.base_prefix or "VIRTUAL_ENV" in env:
        return dict(env)
    programs = os.path.join(sys.prefix, "bin")
    path = env.get("PATH") or os.defpath
    if programs in path.split(os.pathsep):
        return dict(env)
    return {**env, "VIRTUAL_ENV": sys.prefix, "PATH": programs + os.pathsep + path}
