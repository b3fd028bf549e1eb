"""`vcjob timeline` of a real job."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from tests.command_line import verb
from tests.local.conftest import Start, container, job, ranks


def test_every_form_shows_the_ranks_and_where_the_time_went(finish: Start) -> None:
    finish(job(*ranks("sleep 0.3", workers=1, initContainers=[container("sleep 0.2", "prepare")])))
    shown = verb("timeline", "job")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("rank 0 (master-0)") and lines[1].startswith("rank 1 (worker-0)")
    assert "running" in lines[-1] and "init steps" in lines[-1] and "average of 2 pods" in lines[-1]
    document = json.loads(verb("timeline", "job", "-o", "json").stdout)
    assert [pod["rank"] for pod in document["pods"]] == [0, 1]
    assert document["totals"]["Init"] >= 0.15 and document["totals"]["Running"] >= 0.25
    trace = json.loads(verb("timeline", "job", "-o", "chrome").stdout)
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}
    ElementTree.fromstring(verb("timeline", "job", "-o", "svg").stdout)


def test_an_unknown_job_is_one_sentence() -> None:
    missing = verb("timeline", "nosuch")
    assert missing.returncode == 2 and "Traceback" not in missing.stderr
