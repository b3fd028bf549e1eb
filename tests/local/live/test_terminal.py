"""What `run` and `top` show on a real terminal while a job runs."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.conftest import PATIENCE, Start, eventually, job, python, task

pytestmark = pytest.mark.slow

_STEPS = """
import time
print("step 12/100", flush=True)
time.sleep(4)
"""


def on_terminal(
    *words: str, until: bytes, cwd: Path, then: Callable[[], None] | None = None
) -> tuple[subprocess.Popen[bytes], bytes]:
    """Run a verb on a terminal and read what it shows until `until` appears; call `then`; read until the verb ends."""
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-m", "vcjob", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + PATIENCE
    try:
        while until not in shown and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 65536)
    except OSError:  # the verb has ended
        pass
    assert until in shown, shown.decode(errors="replace")
    if then is not None:
        then()
    while True:  # read on, so that the verb is not blocked, until it ends
        try:
            if not os.read(ours, 65536):
                break
        except OSError:
            break
    os.close(ours)
    return running, shown


def test_the_live_view_of_a_run_shows_the_progress(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text(json.dumps(job(task("a", python(_STEPS)))))
    running, _ = on_terminal("run", "job.json", until=b"  step 12/100 (12%)", cwd=tmp_path)
    assert running.wait(PATIENCE) == 0


def test_top_measures_again_until_the_job_ends(start: Start, tmp_path: Path) -> None:
    handle = start(job(task("a", "while [ ! -e measured ]; do sleep 0.05; done")))
    eventually(lambda: handle.phase == "Running")
    redrawn = b"\033[2A\033[J"
    running, _ = on_terminal(
        "top", "job", "--interval", "0.2",
        until=redrawn, cwd=tmp_path, then=(tmp_path / "measured").touch,
    )  # fmt: skip
    assert running.wait(PATIENCE) == 0


def test_top_continues_when_the_job_restarts(start: Start, tmp_path: Path) -> None:
    """Between two attempts no rank runs."""
    script = "[ -e second ] && while [ ! -e measured ]; do sleep 0.05; done || while [ ! -e first ]; do sleep 0.05; done"
    script += "; [ -e second ] || { touch second; exit 1; }"
    restarting = job(task("a", script, policies=[{"event": "PodFailed", "action": "RestartJob"}]))
    handle = start(restarting)
    eventually(lambda: handle.phase == "Running")

    def then() -> None:
        (tmp_path / "first").touch()
        eventually(lambda: handle.status().restarts == 1 and handle.phase == "Running")
        (tmp_path / "measured").touch()

    running, _ = on_terminal(
        "top", "job", "--interval", "0.2", until=b"\033[2A\033[J", cwd=tmp_path, then=then
    )
    assert running.wait(PATIENCE) == 0
