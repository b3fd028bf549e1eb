"""What the job page receives about a job."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from tests.local.conftest import Start, finish, job, nothing_runs_on, python, ranks, start, task
from vcjob.report.podstate import PodState
from vcjob.sdk.handle import Handle
from vcjob.ui.jobs import detail, events, pods, summary

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


def test_pods_that_a_completed_job_has_ended_are_not_missing(finish: Start) -> None:
    complete = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    row = summary(finish(job(task("main", "true", policies=complete), task("helper", "sleep 600"))))
    assert (row["phase"], row["pods"]["up"], row["replicas"]) == ("Completed", 2, 2)


def test_a_pod_that_has_just_been_created_has_a_phase() -> None:
    pod = PodState("worker", 0, "job-worker-0", "uid")
    job = cast("Handle", SimpleNamespace(pods=lambda: [pod]))
    assert [each["phase"] for each in pods(job)] == ["Pending"]


def test_an_event_says_what_it_is_about_and_how_often_it_happened() -> None:
    """As the two versions of the API that Kubernetes' components use; an event of the Job itself needs no name."""
    first, last = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    pod = {"kind": "Pod", "name": "worker-1"}
    old = {"involvedObject": pod, "firstTimestamp": first, "lastTimestamp": last, "count": 7}
    new = {
        "involvedObject": pod,
        "eventTime": first,
        "series": {"count": 3, "lastObservedTime": last},
        "count": None,
    }
    own = {"involvedObject": {"kind": "Job", "name": "job"}}
    found = [{**each, "metadata": {"creationTimestamp": last}, "message": "m"} for each in (old, new, own)]
    job = cast("Handle", SimpleNamespace(events=lambda: found))
    assert [[each[part] for part in ("object", "first", "time", "count")] for each in events(job)] == [
        ["pod/worker-1", first, last, 7],
        ["pod/worker-1", first, last, 3],
        ["", last, last, 1],
    ]
