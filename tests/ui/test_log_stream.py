"""The stream of a job's log: what is sent when it is opened."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig, RunDir
from vcjob.report.logs import LogFilter
from vcjob.report.podstate import ContainerState, Ended, PodState
from vcjob.sdk.local_backend import LocalBackend
from vcjob.ui import producers
from vcjob.ui.streams import Produced


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))


def finished_run(ranks: int, log: bytes) -> RunDir:
    """A run that is over, with the same log for each rank."""
    doc = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"minAvailable": 1, "tasks": []},
    }
    run, lock = Store().create(doc, RunConfig(), "")
    os.close(lock)
    run.write_status(Status(state=State(Phase.COMPLETED)))
    container = ContainerState("main", "main", ended=Ended(0, "Completed", 1.0))
    run.write_pods(
        [
            PodState("worker", rank, f"worker-{rank}", f"p{rank}", rank=rank, containers=[container])
            for rank in range(ranks)
        ]
    )
    for rank in range(ranks):
        folder = Path(run.pod_folder(f"worker-{rank}", 0))
        folder.mkdir(parents=True)
        (folder / "main.0.out").write_bytes(log)
    return run


def lines(produced: Iterable[Produced]) -> list[list[Any]]:
    return [line for each in produced if isinstance(each, tuple) and each[0] == "lines" for line in each[1]]


@pytest.mark.usefixtures("home")
def test_the_lines_of_all_ranks_together_are_bounded_when_a_log_is_opened() -> None:
    finished_run(200, b"".join(b"step %d\n" % number for number in range(1000)))
    sent = lines(producers.log_lines(LocalBackend(), "default", "a", LogFilter(), tail=5000))
    assert len(sent) == producers.MAX_EARLIER
    assert {line[4] for line in sent} == {f"step {number}" for number in range(750, 1000)}
    one = lines(producers.log_lines(LocalBackend(), "default", "a", LogFilter(ranks=(7,)), tail=5000))
    assert [line[4] for line in one] == [f"step {number}" for number in range(1000)]
