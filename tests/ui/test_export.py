"""`vcjob ui JOB --export FILE`: one file without a server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ui.conftest import JOB
from vcjob.cli.ui import command
from vcjob.errors import UserError
from vcjob.sdk.running import run
from vcjob.ui.export import _squares


def test_a_finished_job_is_one_file_whose_text_is_escaped(tmp_path: Path) -> None:
    text = JOB.format(name="exported", ranks=1, script="\"echo '<script>owned</script>'; exit 3\"")
    run(text, on="local").wait(60)
    file = tmp_path / "job.html"
    result = CliRunner().invoke(command, ["exported", "--export", str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    page = file.read_text(encoding="utf-8")
    assert "&lt;script&gt;owned&lt;/script&gt;" in page
    assert "<script" not in page and "http://" not in page and "src=" not in page
    assert "[0 worker-0] " in page and "Failed" in page


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "no-folder" / "job.html")
    monkeypatch.setattr("vcjob.sdk.finding.find", lambda *_, **__: None)
    monkeypatch.setattr("vcjob.ui.export.export", lambda _: "page")
    with pytest.raises(UserError, match=f"^{re.escape(file)} cannot be written: ") as refused:
        CliRunner().invoke(command, ["exported", "--export", file], catch_exceptions=False)
    assert refused.value.hint and list(tmp_path.iterdir()) == []


def test_a_pod_whose_node_does_not_respond_is_in_the_file() -> None:
    pod = {"task": "w", "index": 0, "name": "job-w-0", "phase": "Unknown", "rank": 0}
    assert "<button disabled class='wait' title='job-w-0: Unknown'>0</button>" in _squares([pod], "")


def test_export_needs_a_job() -> None:
    result = CliRunner().invoke(command, ["--export", "job.html"])
    assert result.exit_code == 2 and "go together" in result.output
