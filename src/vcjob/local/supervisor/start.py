"""Starting a supervisor, so that it lives on its own."""

from __future__ import annotations

import os

from vcjob.errors import BackendError
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.prestart import PrestartedSupervisor


def start_supervisor(run: RunDir, lock: int, seat: PrestartedSupervisor | None = None) -> None:
    """Hand the run and its lock to a supervisor, in a session of its own. `lock` is closed here.

    `seat` is one that was started in advance.
    """
    try:
        seat = seat or PrestartedSupervisor(run.uid)
    except BackendError:
        os.close(lock)
        raise
    if not seat.take(run, lock):
        raise BackendError("the supervisor died before it had a run")
