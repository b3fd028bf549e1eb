"""Starting a supervisor, so that it lives on its own."""

from __future__ import annotations

import os

from vcjob.errors import GroundError
from vcjob.local.run.run_dir import Run
from vcjob.local.supervisor.prestart import Seat


def start_supervisor(run: Run, lock: int, seat: Seat | None = None) -> None:
    """Hand the run and its lock to a supervisor, in a session of its own. `lock` is closed here.

    `seat` is one that was started in advance.
    """
    try:
        seat = seat or Seat(run.uid)
    except GroundError:
        os.close(lock)
        raise
    if not seat.take(run, lock):
        raise GroundError("the supervisor died before it had a run")
