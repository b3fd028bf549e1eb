"""What the job page receives about a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.local.conftest import Start, finish, job, nothing_runs_on, python, ranks, start
from vcjob.report.podstate import PodState
from vcjob.sdk.handle import Handle
from vcjob.ui.jobs import detail, pods

__all__ = ["finish", "nothing_runs_on", "start"]


@pytest.mark.slow
def test_a_failed_job_has_the_same_cause_in_its_findings_and_its_failure_report(finish: Start) -> None:
    found = detail(finish(job(*ranks(python("raise ValueError('bad')"), workers=1))))
    (finding,) = found["findings"]
    assert finding["cause"] == found["failure"]["cause"] == "Exception"
    assert finding["message"] == found["failure"]["message"]


@pytest.mark.slow
def test_a_completed_job_has_neither(finish: Start) -> None:
    found = detail(finish(job(*ranks("true"))))
    assert (found["findings"], found["failure"]) == ([], None)


def test_a_pod_that_has_just_been_created_has_a_phase() -> None:
    pod = PodState("worker", 0, "job-worker-0", "uid")
    job = cast("Handle", SimpleNamespace(pods=lambda: [pod]))
    assert [each["phase"] for each in pods(job)] == ["Pending"]
