"""Every failure of the gallery happens for real, and its cause is ranked first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.conftest import Start

from .failures import FAILURES, FAILURES_THAT_NEED_RIGHTS, Failure

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("failure", FAILURES, ids=[failure.name for failure in FAILURES])
def test_the_cause_is_ranked_first(failure: Failure, finish: Start, tmp_path: Path) -> None:
    (tmp_path / "plain.sh").write_text("#!/bin/sh\necho never\n")
    (tmp_path / "shebang.sh").write_text("#!/no/such/interpreter\n")
    (tmp_path / "shebang.sh").chmod(0o755)
    check(failure, finish)


@pytest.mark.parametrize(
    "failure", FAILURES_THAT_NEED_RIGHTS, ids=[failure.name for failure in FAILURES_THAT_NEED_RIGHTS]
)
@pytest.mark.timeout(120)
def test_the_cause_is_ranked_first_where_limits_can_be_enforced(failure: Failure, finish: Start) -> None:
    probe = {**failure.job, "metadata": {"name": "probe"}}
    task = {**probe["spec"]["tasks"][0]}
    template = task["template"]["spec"]
    harmless = {**template["containers"][0], "command": ["true"]}
    task["template"] = {"spec": {**template, "containers": [harmless]}}
    handle = finish({**probe, "spec": {**probe["spec"], "tasks": [task]}})
    notes = [note for note in handle.notes() if "MASTER_PORT" not in note]
    if notes:
        pytest.skip(f"this machine cannot produce it: {notes[0]}")
    check(failure, finish)


def check(failure: Failure, finish: Start) -> None:
    handle = finish(failure.job)
    findings = handle.why()
    assert findings, f"{handle.phase}: {handle.status().state.message}"
    first = findings[0]
    assert first.cause == failure.cause, first
    assert failure.message in first.message
    if failure.first:
        assert first.ranks.first == failure.first
    report = handle.failure()
    if report.culprit is not None:
        assert (report.cause, report.message) == (first.cause, first.message)
        assert first.ranks.first[0] in (f"rank {report.culprit.rank}", report.culprit.who)
