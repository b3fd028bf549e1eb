"""Requests to a job's supervisor: a file in the run's folder or, where none can be written, a signal.

The local handle's verbs call this. `stop` also works when the disk is full; other actions then
raise StoreError with the reason.
"""

from __future__ import annotations

import os
import signal
import time

from vcjob.errors import StoreError
from vcjob.local.machine import process
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.prestart import PROCESS_NAME

#: What the supervisor does on these signals; see `Supervisor`.
_SIGNALS = {"TerminateJob": signal.SIGTERM, "Kill": signal.SIGQUIT}


def request(run: RunDir, action: str, by: str = "") -> None:
    try:
        run.send(action, time.time(), by=by)
    except StoreError:
        number = _SIGNALS.get(action)
        supervisor = supervisor_of(run)
        if number is not None and supervisor is not None:
            os.kill(supervisor, number)
        elif number is None or process.marked(process.MARK_RUN, run.uid):
            raise
        # Otherwise there is nothing left to stop: the full disk has ended the supervisor too.


def supervisor_of(run: RunDir) -> int | None:
    """The oldest process with the supervisor's name: a new shim also has that name until it sets its own."""
    found = [pid for pid in process.marked(process.MARK_RUN, run.uid) if process.name_of(pid) == PROCESS_NAME]
    return min(found, key=lambda pid: process.start_time(pid) or 0, default=None)
