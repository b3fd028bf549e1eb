"""The progress of a real local job, in `status`, `list` and their JSON."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, eventually, job, python, ranks, task
from vcjob.local.logs.progress import tail_lines

_BAR = r"""
import sys, time
print("loading", flush=True)
for n in range(1, 13):
    sys.stderr.write(f"\r{n:3d}%|#   | {n}/100 [00:01<00:44, 2.0it/s]")
    sys.stderr.flush()
time.sleep(600)
"""


def test_an_unfinished_bar_of_rank_0_is_shown(start: Start) -> None:
    handle = start(job(*ranks(python(_BAR), workers=1)))
    eventually(lambda: handle.phase == "Running")
    progress = eventually(lambda: (p := handle.progress()) and p.step == 12 and p)
    assert str(progress) == "step 12/100 (12%), 2 steps/s, 44s left"
    assert "\n  step 12/100 (12%), 2 steps/s, 44s left\n" in verb("status", "job").stdout
    head, row = verb("list").stdout.splitlines()
    assert head.endswith("PROGRESS") and row.endswith("12%")
    expected = {"step": 12, "total": 100, "percent": 12.0, "rate": 2.0, "eta": 44.0}
    document = json.loads(verb("status", "job", "-o", "json").stdout)
    assert json.loads(document["metadata"]["annotations"]["vcjob.io/progress"]) == expected
    listed = json.loads(verb("list", "-o", "json").stdout)["items"][0]
    assert json.loads(listed["metadata"]["annotations"]["vcjob.io/progress"]) == expected
    handle.stop(now=True)
    handle.wait(PATIENCE)
    assert handle.progress() is None


def test_a_job_without_progress_shows_none(start: Start) -> None:
    handle = start(job(task("a", "echo hello; sleep 600")))
    eventually(lambda: handle.phase == "Running" and any(handle.logs()))
    assert handle.progress() is None
    assert "PROGRESS" not in verb("list").stdout
    document = json.loads(verb("status", "job", "-o", "json").stdout)
    assert "vcjob.io/progress" not in (document["metadata"].get("annotations") or {})


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    log = tmp_path / "main.0.out"
    log.write_bytes(b"step 1/2\n" * 100_000 + b"a\r\nb\rc")
    lines = [line.text for line in tail_lines(str(log))]
    assert lines[-3:] == ["a", "b", "c"]
    assert 3000 < len(lines) < 4000 and set(lines[:-3]) == {"step 1/2"}
    assert tail_lines(str(tmp_path / "missing")) == []
