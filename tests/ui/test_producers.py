"""What a stream sends while the backend cannot be read."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from vcjob.errors import BackendError
from vcjob.ui import jobs, producers


def test_a_cluster_that_does_not_answer_is_asked_again_and_the_page_is_kept_informed() -> None:
    backend = Mock()
    backend.list.side_effect = [BackendError("no answer", hint="wait"), []]
    sent = producers.job_list(backend, None)
    assert next(sent) == ("trouble", {"message": "no answer", "hint": "wait"})
    assert next(sent) == producers.TROUBLE_SECONDS
    assert next(sent) == ("jobs", [])
    assert next(sent) == ("trouble", None)
    assert next(sent) == producers.LIST_SECONDS


def test_what_the_caller_may_not_read_is_named_and_the_rest_is_shown(monkeypatch: Any) -> None:
    monkeypatch.setattr(jobs, "summary", lambda _: {"name": "a"})
    job = Mock()
    job.pods.return_value, job.notes.return_value, job.earlier_runs.return_value = [], ["a note"], []
    denied = BackendError("you may not list events", hint="request that right")
    job.events.side_effect = job.observe.side_effect = denied
    found = jobs.detail(job)
    assert found["missing"] == ["you may not list events (request that right)"]
    assert (found["job"], found["notes"], found["events"]) == ({"name": "a"}, ["a note"], [])
