"""What a stream sends while the backend cannot be read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from vcjob.errors import BackendError
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig, RunDir
from vcjob.report.logs import Chunk, LogOrigin
from vcjob.sdk.handle import Handle
from vcjob.sdk.local_backend import LocalBackend
from vcjob.ui import jobs, producers, streams
from vcjob.ui.producers import views


def test_a_cluster_that_does_not_answer_is_asked_again_and_the_page_is_kept_informed() -> None:
    backend = Mock()
    backend.list.side_effect = [BackendError("no answer", hint="wait"), []]
    sent = producers.job_list(backend, None)
    assert next(sent) == ("trouble", {"message": "no answer", "hint": "wait"})
    assert next(sent) == streams.TROUBLE_SECONDS
    assert next(sent) == ("jobs", [])
    assert next(sent) == ("trouble", None)
    assert next(sent) == views.LIST_SECONDS


def test_what_the_caller_may_not_read_is_named_and_the_rest_is_shown(monkeypatch: Any) -> None:
    monkeypatch.setattr(jobs, "summary", lambda _: {"name": "a"})
    job = MagicMock()
    job.pods.return_value, job.notes.return_value, job.earlier_runs.return_value = [], ["a note"], []
    denied = BackendError("you may not list events", hint="request that right")
    job.events.side_effect = job.observe.side_effect = denied
    found = jobs.detail(job)
    assert found["missing"] == ["you may not list events (request that right)"]
    assert (found["job"], found["notes"], found["events"]) == ({"name": "a"}, ["a note"], [])


def new_run(name: str, uid: str) -> RunDir:
    """A run in the store whose supervisor is gone."""
    spec = {"minAvailable": 1, "tasks": []}
    doc = {"metadata": {"name": name, "namespace": "default", "uid": uid}, "spec": spec}
    run, lock = Store().create(doc, RunConfig(), "")
    os.close(lock)
    return run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))


@pytest.mark.usefixtures("home")
def test_a_damaged_job_and_one_that_is_being_deleted_do_not_keep_others_from_the_list() -> None:
    runs = {name: new_run(name, f"uid-of-{name}") for name in ("good", "damaged", "deleted")}
    Path(runs["damaged"].path("job.json")).write_bytes(b"")

    class Deleting(LocalBackend):
        def list(self, namespace: str | None, *, all_namespaces: bool = False) -> Sequence[Handle]:
            found = super().list(namespace, all_namespaces=all_namespaces)
            shutil.rmtree(runs["deleted"].folder, ignore_errors=True)
            return found

    event, sent = next(producers.job_list(Deleting(), None))  # type: ignore[misc]  # not a pause
    assert event == "jobs"
    assert [(row["name"], row["phase"]) for row in sent] == [("good", "Failed"), ("damaged", "Damaged")]
    assert "job.json" in sent[1]["message"] and "vcjob delete uid-of-damaged" in sent[1]["message"]


def test_a_job_that_is_started_again_begins_a_new_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new run of the name: no point of the earlier run is left, and its log is no longer read."""
    monkeypatch.setattr(jobs, "detail", lambda job, _: {"pods": [{"uid": f"pod of {job.uid}", "rank": 0}]})
    origin = LogOrigin(rank=0, task="w", index=0, attempt=0, container="main", main=True, restart=0)

    def run(uid: str, line: bytes) -> Mock:
        job = MagicMock(uid=uid, done=True)
        job.log_chunks.return_value = (step for step in ([Chunk(origin, line, 5.0)], 1.0))
        return job

    backend, first = Mock(), run("first", b"step 9/9 loss 0.1\n")
    backend.find.side_effect = [first, run("second", b"step 1/9 loss 2.0\n")]
    sent = producers.one_job(backend, "default", "a")
    histories: list[Any] = []
    while len(histories) < 2:
        produced = next(sent)
        if isinstance(produced, tuple) and produced[0] == "history":
            histories.append(produced[1])
    assert histories == [[(5.0, 9, 0.1)], [(5.0, 1, 2.0)]]
    assert first.log_chunks.return_value.gi_frame is None, "it is closed"


def test_a_log_that_may_not_be_read_hides_no_other_part_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The charts come from the log of rank 0; a user without that right still sees the cause."""
    monkeypatch.setattr(jobs, "detail", lambda *_: {"pods": [{"uid": "p", "rank": 0}], "findings": ["why"]})

    def denied(*_: object, **__: object) -> Iterator[Any]:
        yield from ()
        raise BackendError("you may not read logs")

    backend, job = Mock(), MagicMock(uid="a", done=True)
    job.log_chunks.side_effect = denied
    backend.find.return_value = job
    sent = producers.one_job(backend, "default", "a")
    parts = [next(sent) for _ in range(4)]
    assert parts[1:] == [("findings", ["why"]), ("history", []), views.OVER_SECONDS]
