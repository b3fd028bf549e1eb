"""`vcjob.watch()`: the phase, the progress and the ranks of a job while it runs, in a notebook or on a terminal.

It only reads a `Handle`. In a notebook one table is updated in place; elsewhere a line is printed for every change.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from html import escape
from importlib import import_module
from typing import Any

from vcjob.errors import WaitTimeout
from vcjob.lifecycle.status import Phase
from vcjob.sdk.handle import Handle

#: Every poll of a cluster is a request; this machine's store is only read.
_PAUSE = {"local": 0.2, "cluster": 2.0}
_SHOWN_PODS = 64


def watch(handle: Handle, timeout: float | None = None) -> str:
    """Show a job until it is over, and return its phase; WaitTimeout after `timeout` seconds.

    In a notebook the same table is updated: phase, progress, one row for each rank, and the cause of a failure.

    >>> from vcjob import pytorch_job, run
    >>> watch(run(pytorch_job("watched", command="true", workers=0)), 60)  # doctest: +ELLIPSIS
    watched: ...
    'Completed'
    """
    show = _notebook() or _print
    deadline = None if timeout is None else time.monotonic() + timeout
    shown: list[str] = []
    with handle.watching():
        while True:
            over = handle.done
            if (lines := list(_lines(handle))) != shown:
                show(shown := lines)
            if over:
                return handle.phase
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"the job {handle.name!r} is still {handle.phase} after {timeout:g} s")
            time.sleep(_PAUSE[handle.backend])


def _lines(handle: Handle) -> Iterator[str]:
    """The state of the job, of its first ranks, and why it failed."""
    status = handle.status()
    progress = handle.progress() if status.phase is Phase.RUNNING else None
    yield f"{handle.name}: {status.phase}{f', {progress}' if progress else ''}"
    pods = sorted(handle.pods(), key=lambda pod: (pod.rank is None, pod.rank or 0, pod.task, pod.index))
    for pod in pods[:_SHOWN_PODS]:
        failed = pod.first_failure()
        code = f" (exit code {failed[1].exit_code})" if failed else ""
        yield f"{'-' if pod.rank is None else pod.rank} {pod.name} {pod.reason or pod.phase}{code}"
    if len(pods) > _SHOWN_PODS:
        more = len(pods) - _SHOWN_PODS
        yield f"and {more} more {'pod' if more == 1 else 'pods'}"
    if status.over and status.phase is not Phase.COMPLETED:
        for finding in handle.why()[:1]:
            yield f"{finding.cause}: {finding.message}"


def _print(lines: list[str]) -> None:
    sys.stdout.write("; ".join(lines) + "\n")
    sys.stdout.flush()


def _notebook() -> Callable[[list[str]], None] | None:
    """What updates one output of the current cell, where this program is the kernel of a notebook."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if not hasattr(shell, "kernel"):
        return None
    display: Any = import_module("IPython.display")
    output = display.display(display.HTML(""), display_id=True)
    return lambda lines: output.update(display.HTML(_html(lines)))


def _html(lines: list[str]) -> str:
    head, *rest = (escape(line) for line in lines)
    return f"<pre><b>{head}</b>\n" + "\n".join(rest) + "</pre>"
