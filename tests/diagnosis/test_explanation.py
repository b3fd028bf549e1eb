"""The status of a failed job names the rank that failed first and what it said."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.diagnosis.test_failure_rules import NAN, job, rank
from vcjob.diagnosis.explanation import explained
from vcjob.lifecycle.descriptions import describe
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit, HistoryEntry, State, Status

KNOWN = Culprit("worker", 0, rank=0, event="PodFailed", failure=Failure("main", 1, message="peer closed"))


def failed(culprit: Culprit = KNOWN, **fields: Any) -> Status:
    """A status in which the lifecycle has named the culprit."""
    state = msgspec.structs.replace(State(), message=f"gave up: {describe(culprit)}")
    return msgspec.structs.replace(Status(), state=state, culprit=culprit, **fields)


def test_the_rank_that_failed_first_replaces_the_one_that_was_seen_first() -> None:
    first = rank(1, at=9.0, stderr=tuple(NAN), container="main")
    status, finding = explained(failed(), job(rank(0, at=10.0), first))
    assert finding is not None and finding.cause == "Exception"
    assert status.culprit is not None and status.culprit.failure is not None
    assert (status.culprit.index, status.culprit.rank, status.culprit.cause) == (1, 1, "Exception")
    assert (status.culprit.failure.container, status.culprit.failure.exit_code) == ("main", 1)
    assert status.culprit.failure.message == "ValueError: loss is NaN (train.py:41 in <module>)"
    assert status.state.message == f"gave up: {describe(status.culprit)}"
    assert "rank 1 (worker-1) failed" in status.state.message


def test_the_known_failure_of_the_rank_is_kept_with_its_message() -> None:
    known = msgspec.structs.replace(KNOWN, index=1, rank=1)
    status, _ = explained(failed(known), job(rank(1, stderr=tuple(NAN))))
    assert status.culprit is not None and status.culprit.failure == known.failure
    assert status.state.message == failed(known).state.message


def test_an_exception_without_a_place_is_quoted_alone() -> None:
    status, _ = explained(
        failed(), job(rank(1, stderr=("Traceback (most recent call last):", "ValueError: loss is NaN")))
    )
    assert status.culprit is not None and status.culprit.failure is not None
    assert status.culprit.failure.message == "ValueError: loss is NaN"


def test_a_program_without_a_traceback_is_quoted_with_its_last_line() -> None:
    status, _ = explained(failed(), job(rank(1, code=3, stderr=("loading", "no such dataset"))))
    assert status.culprit is not None and status.culprit.failure is not None
    assert status.culprit.failure.message == "no such dataset"


def test_the_last_entry_of_the_history_and_a_restart_name_the_same_rank() -> None:
    entry = HistoryEntry(1.0, "RestartJob", "PodFailed", message=describe(KNOWN), culprit=KNOWN)
    other = msgspec.structs.replace(entry, culprit=None, message="earlier")
    status, _ = explained(failed(history=(other, entry)), job(rank(1, stderr=tuple(NAN))))
    assert status.culprit is not None
    assert status.history[0] == other
    assert (status.history[1].culprit, status.history[1].message) == (
        status.culprit,
        describe(status.culprit),
    )


@pytest.mark.parametrize("status", [failed(), Status()], ids=["a culprit", "no culprit"])
def test_a_job_without_a_finding_keeps_its_status(status: Status) -> None:
    assert explained(status, job(rank(0, code=0), phase="Completed")) == (status, None)


def test_a_status_without_a_culprit_is_not_changed_by_a_finding() -> None:
    status, finding = explained(Status(), job(rank(1, stderr=tuple(NAN))))
    assert status == Status()
    assert finding is not None and finding.cause == "Exception"
