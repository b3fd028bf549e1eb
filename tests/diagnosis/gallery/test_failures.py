"""Every failure of the gallery happens for real, and its cause is ranked first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.command_line import VCJOB
from tests.local.conftest import PATIENCE, Start, eventually, job, ranks
from vcjob.local.live.rank_process import main_container
from vcjob.sdk.finding import jobs
from vcjob.sdk.handle import Handle

from .failures import FAILURES, FAILURES_OF_A_SMALL_MACHINE, FAILURES_THAT_NEED_RIGHTS, Failure
from .limited_cgroup import limited_cgroup

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("failure", FAILURES, ids=[failure.name for failure in FAILURES])
def test_the_cause_is_ranked_first(failure: Failure, finish: Start, tmp_path: Path) -> None:
    (tmp_path / "plain.sh").write_text("#!/bin/sh\necho never\n")
    (tmp_path / "shebang.sh").write_text("#!/no/such/interpreter\n")
    (tmp_path / "shebang.sh").chmod(0o755)
    check(failure, finish)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_a_rank_that_somebody_kills_is_named(number: signal.Signals, start: Start) -> None:
    handle = start(job(*ranks("echo up; exec sleep 600")))
    eventually(lambda: len({line.rank for line in handle.logs()}) == 3, what="a line of every rank")
    pod = next(pod for pod in handle.pods() if pod.rank == 1)
    container = main_container(pod)
    assert container is not None and container.pid is not None
    os.kill(container.pid, number)
    assert handle.wait(PATIENCE) == "Failed"
    found_first(
        Failure(
            "killed-from-outside",
            {},
            "SegmentationFault" if number == signal.SIGSEGV else "Killed",
            ("rank 1",),
            number.name,
        ),
        handle,
    )
    assert handle.why()[0].ranks.victims == ("rank 0", "rank 2")


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


@pytest.mark.parametrize(
    "failure", FAILURES_OF_A_SMALL_MACHINE, ids=[failure.name for failure in FAILURES_OF_A_SMALL_MACHINE]
)
@pytest.mark.timeout(240)
def test_the_cause_is_ranked_first_where_the_machine_has_no_memory_left(
    failure: Failure, tmp_path: Path
) -> None:
    document = tmp_path / "job.yaml"
    document.write_text(json.dumps(failure.job))
    with limited_cgroup(256 << 20) as processes:
        enter = f'echo $$ > {processes} && exec "$@"'
        subprocess.run(
            ["sh", "-c", enter, "sh", *VCJOB, "run", str(document)], cwd=tmp_path, timeout=PATIENCE * 2
        )
        (handle,) = jobs()
        found_first(failure, handle)
        assert "256Mi" in handle.why()[0].message


def check(failure: Failure, finish: Start) -> None:
    found_first(failure, finish(failure.job))


def found_first(failure: Failure, handle: Handle) -> None:
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
