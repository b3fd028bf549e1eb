"""Ctrl-C and a closed terminal while `vcjob run` follows a job."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.command_line import background
from tests.local.conftest import PATIENCE, eventually, job, left_behind, ranks, task

STAGES = {
    "as soon as it is stored": lambda: bool(vcjob.jobs()),
    "with its first pod": lambda: bool(vcjob.jobs()) and bool(vcjob.jobs()[0].pods()),
    "while it runs": lambda: bool(vcjob.jobs()) and vcjob.jobs()[0].phase == "Running",
}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_the_job_cleanly_at_every_stage(file: Any, tmp_path: Path, stage: str) -> None:
    command = background(tmp_path, "run", file(job(*ranks("sleep 600"))))
    eventually(STAGES[stage])
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, output
    assert "Traceback" not in output
    for handle in vcjob.jobs():
        assert handle.phase == "Terminated"
        assert left_behind(handle) == []


@pytest.mark.slow
def test_a_second_ctrl_c_kills_what_does_not_want_to_end(file: Any, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; touch up; while :; do sleep 0.05; done"
    command = background(tmp_path, "run", file(job(task("a", stubborn, terminationGracePeriodSeconds=60))))
    eventually((tmp_path / "up").exists)
    command.send_signal(signal.SIGINT)
    handle = vcjob.find("job")
    eventually(lambda: handle.phase == "Terminating")
    time.sleep(0.3)
    assert command.poll() is None
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, output
    assert left_behind(handle) == []


def test_closing_the_terminal_does_not_end_the_job(file: Any, tmp_path: Path) -> None:
    command = background(tmp_path, "run", file(job(task("a", "touch up; sleep 1; touch end"))))
    eventually((tmp_path / "up").exists)
    command.send_signal(signal.SIGHUP)
    command.communicate(timeout=PATIENCE)
    assert vcjob.find("job").wait(PATIENCE) == "Completed"
    assert (tmp_path / "end").exists()
