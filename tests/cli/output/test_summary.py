"""The summary of a job that is over: each thing is said once."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

from vcjob.cli.output.style import Style
from vcjob.cli.output.summary import summary
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.report.failure import Culprit, FailureReport


def test_what_the_container_said_is_not_repeated_where_its_last_lines_are_shown() -> None:
    lines = ["wait-for-master: waiting", "wait-for-master: error: refused"]
    culprit = Culprit(
        "j-worker-0", "worker", 0, 1, 0, "wait-for-master", 91, "Error",
        message="\n".join(lines) + "\n", stderr=lines,
    )  # fmt: skip
    report = FailureReport(culprit, [], "MasterNotListening", "rank 1 waited for the master", "check it")
    job: Any = SimpleNamespace(name="j", failure=lambda: report, pods=list)
    shown = "\n".join(summary(job, Status(State(Phase.FAILED)), Style(io.StringIO()), "j"))
    assert shown.count("wait-for-master: error: refused") == 1
    assert "    | wait-for-master: error: refused" in shown
