"""`vcjob timeline` of a real job."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from tests.command_line import verb
from tests.local.conftest import Start, container, job, python, ranks

#: It says when it begins its first collective, and when that has ended.
_PROGRAM = """
import time, torch, torch.distributed as dist
time.sleep(1.5)
dist.init_process_group('gloo')
print(time.time(), flush=True)
dist.all_reduce(torch.ones(4))
print(time.time(), flush=True)
time.sleep(3)
dist.destroy_process_group()
"""


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


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_imports_and_what_comes_before_the_first_collective_are_shown(start: Start) -> None:
    handle = start(job(*ranks(python(_PROGRAM), workers=1)))
    assert handle.wait(180) == "Completed"
    for row in handle.timeline().rows:
        assert row.rank is not None
        kinds = [span.kind for span in row.spans]
        assert kinds[kinds.index("Imports") :] == ["Imports", "FirstCollective", "Running"], kinds
        imports, before, _ = row.spans[-3:]
        assert imports.seconds > 0.3 and before.seconds >= 1.0
        began, ended = (float(line.text) for line in handle.logs(ranks=(row.rank,)))
        assert began - 0.1 <= before.end <= ended + 0.1


def test_an_unknown_job_is_one_sentence() -> None:
    missing = verb("timeline", "nosuch")
    assert missing.returncode == 2 and "Traceback" not in missing.stderr
