"""`vcjob why`: the causes of a failed job, as text and as JSON."""

from __future__ import annotations

import json

import pytest

from tests.command_line import verb
from tests.local.conftest import Start, finish, job, nothing_runs_on, python, ranks, start

__all__ = ["finish", "nothing_runs_on", "start"]

FAILING = (
    "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('loss is NaN')\ntime.sleep(600)"
)


@pytest.mark.slow
def test_the_cause_its_evidence_and_the_victims_are_shown(finish: Start) -> None:
    finish(job(*ranks(python(FAILING)), name="train"))
    (finding,) = json.loads(verb("why", "train", "-o", "json").stdout)["findings"]
    assert list(finding) == ["cause", "message", "ranks", "evidence", "hint", "confidence"]
    assert (finding["cause"], finding["confidence"]) == ("Exception", "high")
    assert finding["ranks"] == {"first": ["rank 1"], "victims": ["rank 0", "rank 2"]}
    assert finding["evidence"][0] == {"source": "rank 1, stderr", "text": "ValueError: loss is NaN"}
    shown = verb("why", "train").stdout
    assert shown.splitlines()[0].startswith("Exception: rank 1 raised ValueError: loss is NaN")
    assert "  ended because of it: rank 0, rank 2" in shown
    assert "Exception: rank 1 raised ValueError: loss is NaN" in verb("status", "train").stdout


@pytest.mark.slow
def test_a_job_without_a_problem_has_no_findings(finish: Start) -> None:
    finish(job(*ranks("true"), name="good"))
    assert verb("why", "good").stdout == "good is Completed; no problem was found: 3 of 3 pods succeeded\n"
    assert json.loads(verb("why", "good", "-o", "json").stdout) == {"findings": []}


@pytest.mark.slow
def test_a_job_that_a_restart_saved_shows_why_it_was_restarted(finish: Start) -> None:
    once = "[ $RANK = 0 ] || [ -e again ] || { touch again; exit 3; }"
    finish(
        job(*ranks(once, workers=1), name="saved", policies=[{"event": "PodFailed", "action": "RestartJob"}])
    )
    assert verb("why", "saved").stdout.splitlines() == [
        "saved is Completed; no problem was found: 2 of 2 pods succeeded",
        "  restarted before: rank 1 (worker-0) failed: container main exited with code 3; policy of the job: RestartJob; "
        "see `vcjob events saved`",
    ]


def test_an_unknown_job_is_one_sentence(own_home: None) -> None:
    ran = verb("why", "nothing")
    assert ran.returncode == 2 and "Traceback" not in ran.stderr
    assert ran.stderr.startswith("error: ")
