"""The runner of Volcano's suites, without a cluster: what it makes of a report, and what it knows of differences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.known import known_differences
from tests.conformance.running import groups, judged
from tests.conformance.specs import FILES_ABOUT_JOBS, SUITES, Spec


def leaf(file: str, line: int, state: str, **more: Any) -> dict[str, Any]:
    location = {"FileName": f"volcano.sh/volcano/test/e2e/jobp/{file}", "LineNumber": line}
    return {"LeafNodeType": "It", "LeafNodeText": "it", "LeafNodeLocation": location, "State": state, **more}


def reported(folder: Path, *leaves: dict[str, Any]) -> Path:
    report = folder / "report.json"
    report.write_text(json.dumps([{"SpecReports": list(leaves)}]))
    return report


SPEC = Spec("jobp", "admission.go", 40, "it")


@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("passed", "passed"),
        ("failed", "failed"),
        ("panicked", "failed"),
        ("skipped", "skipped"),
        ("timedout", "timed out"),
    ],
)
def test_the_verdict_is_that_of_the_spec_itself(tmp_path: Path, state: str, verdict: str) -> None:
    report = reported(tmp_path, leaf("other.go", 40, "skipped"), leaf("admission.go", 40, state))
    assert judged(report, SPEC, 1.0).verdict == verdict


def test_a_failure_says_where_and_why(tmp_path: Path) -> None:
    failure = {"Message": "expected\n  this", "Location": {"FileName": "/x/job.go", "LineNumber": 7}}
    report = reported(tmp_path, leaf("admission.go", 40, "failed", Failure=failure))
    assert judged(report, SPEC, 1.0).message == "job.go:7 expected this"


def test_a_spec_without_a_report_has_failed(tmp_path: Path) -> None:
    assert judged(tmp_path / "report.json", SPEC, 1.0).verdict == "failed"


def test_specs_that_need_room_run_alone_and_the_others_together() -> None:
    roomless = [Spec("jobp", "admission.go", line, "a") for line in (1, 2)]
    alone = Spec("jobp", "job_lifecycle.go", 3, "b")
    last = Spec("vcctl", "vcctl.go", 4, "c")
    assert list(groups([*roomless, alone, last])) == [roomless, [alone], [last]]


def test_the_differences_are_read_from_the_compatibility_page() -> None:
    known = known_differences()
    assert ("jobseq", "Test SSh Plugin with Pod Affinity") in known
    assert {suite for suite, _ in known} <= set(SUITES) == set(FILES_ABOUT_JOBS)
