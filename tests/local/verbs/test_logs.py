"""`vcjob logs`: which lines it prints, and how."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import verb
from tests.local.conftest import container, job, ranks, task


@pytest.mark.parametrize(
    ("option", "value", "message", "hint"),
    [
        ("--rank", "99", "the job has no rank 99", "its ranks are: 0, 1"),
        ("-c", "nosuch", "the job has no container 'nosuch'", "its containers are: main"),
        ("--attempt", "7", "the job has no attempt 7", "its attempts are: 0"),
        ("--task", "nosuch", "the job has no task 'nosuch'", "its tasks are: master, worker"),
    ],
)
def test_logs_of_what_does_not_exist_are_an_error_that_lists_what_does(
    file: Any, option: str, value: str, message: str, hint: str
) -> None:
    verb("run", file(job(*ranks("echo hello", workers=1))))
    result = verb("logs", "job", option, value)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: {message}\nhint: {hint}\n"
    assert verb("logs", "job", "-f", option, value).returncode == (0 if option == "--attempt" else 2)


def test_the_last_line_of_stderr_is_found_below_later_output(file: Any) -> None:
    verb("run", file(job(task("a", "echo err >&2; sleep 0.3; echo out"))))
    assert verb("logs", "job", "--stderr", "--tail", "1", "--no-prefix").stdout == "err\n"


def test_logs_are_chosen_by_pattern_and_by_stream(file: Any) -> None:
    verb("run", file(job(task("a", "echo loss 1; echo step 2; echo loss 3 >&2"))))
    assert verb("logs", "job", "--grep", "loss [0-9]").stdout.count("loss") == 2
    assert verb("logs", "job", "--stderr").stdout == "[- a-0] loss 3\n"
    assert "not a valid regular expression" in verb("logs", "job", "--grep", "(").stderr


def test_a_pattern_may_have_any_bytes(file: Any) -> None:
    verb("run", file(job(task("a", r"printf 'caf\351\ntea\n'"))))
    shown = verb("logs", "job", "--grep", "\udce9", "--no-prefix")
    assert (shown.returncode, shown.stdout) == (0, "caf\udce9\n")


def test_log_lines_have_the_time_at_which_they_were_received(file: Any) -> None:
    begin = time.time()
    verb("run", file(job(task("a", "echo one; sleep 0.5; echo two"))))
    lines = verb("logs", "job", "--timestamps").stdout.splitlines()
    assert [line.split()[0::3] for line in lines] == [["[-", "one"], ["[-", "two"]]
    stamps = [datetime.fromisoformat(line.split()[2]).timestamp() for line in lines]
    assert begin - 0.01 < stamps[0] < stamps[1] - 0.3 < time.time()
    documents = [
        json.loads(line) for line in verb("logs", "job", "--timestamps", "-o", "json").stdout.splitlines()
    ]
    assert [document["time"] for document in documents] == [line.split()[2] for line in lines]
    assert verb("logs", "job", "--timestamps", "--no-prefix").stdout.splitlines()[0].split()[1] == "one"


def test_a_broken_pipe_is_no_error(file: Any, tmp_path: Path) -> None:
    many = container("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    verb("run", file(job(task("a", many))))
    shell = f"{sys.executable} -m vcjob.cli.main logs job | head -1"
    result = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "[- a-0] line 0\n"
    assert "Traceback" not in result.stderr
