"""`vcjob ui JOB --export FILE`: one file without a server."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from tests.ui.conftest import JOB
from vcjob.cli.ui import command
from vcjob.errors import BackendError, UserError, VcjobError
from vcjob.report.logs import Chunk, LogOrigin
from vcjob.sdk.running import run
from vcjob.ui import jobs
from vcjob.ui.export import _squares, export


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


@pytest.fixture
def cluster_job(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """A job that is over, whose logs arrive as a cluster's do: a pause comes before every piece."""
    job = Mock(namespace="default", created=1.0, uid="u", replicas=1, done=True)
    job.name = "a"
    job.to_dict.return_value = {"kind": "Job"}
    found: dict[str, object] = {
        "job": {"phase": "Completed", "restarts": 0},
        "failure": None,
        "findings": [],
        "events": [],
    }
    pod = {"task": "w", "index": 0, "name": "a-w-0", "phase": "Succeeded", "rank": 0}
    monkeypatch.setattr(jobs, "detail", lambda *_: {**found, "pods": [pod], "missing": ["no events"]})
    return job


def chunks(*lines: bytes) -> Callable[..., Iterator[object]]:
    origin = LogOrigin(rank=0, task="w", index=0, attempt=0, container="main", main=True, restart=0)

    def read(*_: object, **__: object) -> Iterator[object]:
        for number, line in enumerate(lines):
            yield 0.001
            yield [Chunk(origin, line + b"\n", float(number))]

    return read


def test_a_log_that_arrives_in_pieces_is_in_the_file_to_its_end_with_its_charts(cluster_job: Mock) -> None:
    cluster_job.log_chunks.side_effect = chunks(*(b"step %d/40 loss 0.5" % step for step in range(1, 41)))
    page = export(cluster_job)
    assert "<b>Step</b> 40 (1 – 40)" in page and "[0 w-0] step 40/40" in page
    assert "no events" in page
    follows = [call.kwargs.get("follow", False) for call in cluster_job.log_chunks.call_args_list]
    assert follows == [False, False]


@pytest.mark.parametrize("error", [BackendError("you may not read logs"), UserError("these are 600 logs")])
def test_logs_that_cannot_be_read_leave_the_rest_of_the_file(cluster_job: Mock, error: VcjobError) -> None:
    cluster_job.log_chunks.side_effect = error
    page = export(cluster_job)
    assert f"vcjob: not all logs can be read: {error.message}" in page and "a-w-0" in page


def test_the_newest_lines_are_kept_and_the_number_of_others_is_said(
    cluster_job: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vcjob.ui.export.MAX_LINES", 3)
    monkeypatch.setattr("vcjob.ui.export.MIN_TAIL", 1)
    cluster_job.log_chunks.side_effect = chunks(*(b"number %d" % number for number in range(5)))
    page = export(cluster_job)
    assert "vcjob: 2 older lines are left out" in page
    assert "number 1" not in page and "number 2\n[0 w-0] number 3\n[0 w-0] number 4<" in page
    assert cluster_job.log_chunks.call_args.kwargs["tail"] == 3, "every rank has its share"


def test_colours_of_a_terminal_are_not_in_the_file(cluster_job: Mock) -> None:
    line = b"\x1b[38:5:1mred\x1b[0m \x1b]0;title\x07text\tand <b>"
    cluster_job.log_chunks.side_effect = chunks(line)
    assert "red text\tand &lt;b&gt;" in export(cluster_job)


def test_a_pod_whose_node_does_not_respond_is_in_the_file() -> None:
    pod = {"task": "w", "index": 0, "name": "job-w-0", "phase": "Unknown", "rank": 0}
    assert "<button disabled class='wait' title='job-w-0: Unknown'>0</button>" in _squares([pod], "")


def test_export_needs_a_job() -> None:
    result = CliRunner().invoke(command, ["--export", "job.html"])
    assert result.exit_code == 2 and "--export needs JOB" in result.output
