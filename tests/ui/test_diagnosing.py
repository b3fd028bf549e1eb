"""How often the findings of a job are read while a page shows it, and when hangs are searched."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation
from vcjob.ui import diagnosing, jobs, producers
from vcjob.ui.diagnosing import Diagnosis
from vcjob.ui.producers.views import JOB_SECONDS

HANG = Finding("RankBehind", "rank 3 is behind")


@pytest.fixture
def job() -> MagicMock:
    """A running job of a cluster, with ranks that hang."""
    job = MagicMock(done=False, uid="u")
    job.observe.side_effect = lambda: Observation("a", "cluster", "Running")
    job.find_hangs.return_value = [HANG]
    job.unread.return_value = ""
    return job


def test_a_hang_is_among_the_findings_and_is_searched_at_a_low_rate(
    job: MagicMock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosing, "KEPT_SECONDS", 0.0)
    diagnosis = Diagnosis()
    for _ in range(3):
        (found,) = diagnosis.read(job, None)["findings"]
        assert found["cause"] == "RankBehind"
    assert (job.find_hangs.call_count, job.observe.call_count) == (1, 3)


def test_findings_are_read_again_when_something_has_changed(job: MagicMock) -> None:
    diagnosis = Diagnosis()
    for basis in (1, 1, 2, 2, 2):
        diagnosis.read(job, basis)
    assert job.observe.call_count == 2


def test_a_hang_of_an_earlier_attempt_is_forgotten(job: MagicMock) -> None:
    diagnosis = Diagnosis()
    diagnosis.read(job, 1)
    job.observe.side_effect = lambda: Observation("a", "cluster", "Restarting")
    diagnosis.read(job, 2)
    job.observe.side_effect = lambda: Observation("a", "cluster", "Running")
    assert diagnosis.read(job, 3)["findings"] == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_read_only_page_runs_nothing_in_pods(
    job: MagicMock, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    monkeypatch.setattr(jobs, "summary", lambda _: {"phase": "Running"})
    monkeypatch.setattr(jobs, "usage", lambda *_: None)
    backend = MagicMock()
    backend.find.return_value = job
    sent = producers.one_job(backend, "default", "a", read_only=read_only)
    while next(sent) != JOB_SECONDS:
        pass
    assert job.find_hangs.called is not read_only


def test_why_hangs_cannot_be_found_is_a_note(job: MagicMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "summary", lambda _: {"phase": "Running"})
    job.notes.return_value = ["another port"]
    job.unread.return_value = "hangs cannot be detected: you may not run commands in pods"
    assert jobs.detail(job, Diagnosis())["notes"] == ["another port", job.unread.return_value]
