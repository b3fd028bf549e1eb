"""Jobs that the controller rejects: they are never run, but their TTL and their Commands are handled."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller import admission
from vcjob.cluster.resources import PartialCommand
from vcjob.lifecycle.user_requests import COMMANDS_PER_DECISION


def _command(harness: Harness, name: str, action: str) -> None:
    document = {
        "metadata": {"name": name, "uid": name},
        "action": action,
        "target": {"kind": "Job", "name": "j"},
    }
    made = harness.api.put("commands", document)
    harness.jobs.command_added(msgspec.convert(made, PartialCommand))


def _kinds(harness: Harness) -> list[str]:
    return [kind for kind, _ in harness.api.objects]


async def test_a_rejected_job_is_deleted_after_its_ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = Harness(job("j", ttlSecondsAfterFinished=60))
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidJob"
    assert [round(seconds) for seconds in harness.queue.later] == [60]
    harness.take_over()
    await harness.reconcile()
    assert [round(seconds) for seconds in harness.queue.later] == [60], "the next leader waits for the rest"
    later = time.time() + 61
    monkeypatch.setattr(harness.api, "now", lambda: later)
    await harness.reconcile()
    assert "jobs" not in _kinds(harness)


async def test_a_ttl_that_is_set_later_applies() -> None:
    harness = Harness(job("j"))
    await harness.reconcile()
    assert harness.state.idle and harness.queue.later == []
    harness.change(job("j", ttlSecondsAfterFinished=0))
    await harness.reconcile()
    assert "jobs" not in _kinds(harness)


@pytest.mark.parametrize("ttl", [-1, True, "60", 1.5, {}, 10**400])
async def test_a_ttl_that_is_no_number_of_seconds_is_ignored(ttl: Any) -> None:
    harness = Harness(job("j", ttlSecondsAfterFinished=ttl))
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidJob"
    assert harness.queue.later == [] and "jobs" in _kinds(harness)


@pytest.mark.parametrize("action", ["RestartJob", "ResumeJob", "TerminateJob", "Dance"])
@pytest.mark.parametrize("new_leader", [False, True])
async def test_the_commands_of_a_rejected_job_are_refused_and_deleted(action: str, new_leader: bool) -> None:
    harness = Harness(job("j", suspend=True))
    await harness.reconcile()
    if new_leader:
        harness.take_over()
    _command(harness, "c", action)
    await harness.reconcile()
    assert "commands" not in _kinds(harness)
    assert (harness.stored["state"]["phase"], harness.stored["state"]["reason"]) == ("Failed", "InvalidJob")
    await harness.events.drain()
    events = {doc["reason"]: doc["message"] for (k, _), doc in harness.api.objects.items() if k == "events"}
    assert f"{action} was rejected" in events["CommandRefused"]
    assert harness.state.idle


async def test_any_number_of_commands_for_a_rejected_job_is_deleted_in_bounded_steps() -> None:
    harness = Harness(job("j"))
    await harness.reconcile()
    for number in range(COMMANDS_PER_DECISION * 2 + 1):
        _command(harness, f"c{number}", "AbortJob")
    before = harness.api.requests["patch", "jobs"]
    await harness.reconcile()
    assert "commands" not in _kinds(harness)
    assert harness.api.requests["patch", "jobs"] - before == 3, "one write for each hundred"


async def test_a_rejected_job_whose_status_somebody_removes_is_checked_again() -> None:
    harness = Harness(job("j", ttlSecondsAfterFinished=60))
    await harness.reconcile()
    del harness.api.objects["jobs", "j"]["status"]
    harness.change(job("j", ttlSecondsAfterFinished=60), generation=1)
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidJob"
    assert harness.api.requests["patch", "jobs"] == 2


def _admission_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(admission, "admit", fail)


async def _events(harness: Harness) -> dict[str, str]:
    await harness.events.drain()
    return {doc["reason"]: doc["message"] for (k, _), doc in harness.api.objects.items() if k == "events"}


INTERNAL = "internal error while checking the Job: ZeroDivisionError: division by zero"


async def test_an_internal_error_of_admission_is_the_reason_of_the_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    _admission_fails(monkeypatch)
    harness = Harness(job("j", task("a", 1)))
    for _ in range(3):
        await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidJob"
    assert harness.stored["state"]["message"].startswith(INTERNAL)
    assert (await _events(harness))["InvalidJob"].startswith(INTERNAL)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == [
        "the check of Job n/j failed"
    ]


async def test_a_job_that_runs_continues_after_an_internal_error_in_the_check_of_its_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harness = Harness(job("j", task("a", 2)))
    await harness.reconcile()
    _admission_fails(monkeypatch)
    harness.change(job("j", task("a", 3)))
    await harness.reconcile()
    assert (await _events(harness))["InvalidUpdate"].startswith(INTERNAL)
    assert harness.stored["state"]["phase"] == "Pending"
    assert harness.pods() == ["j-a-0", "j-a-1"]


async def test_a_job_is_checked_again_where_the_machine_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise MemoryError

    harness = Harness(job("j", task("a", 1)))
    with monkeypatch.context() as broken, pytest.raises(MemoryError):
        broken.setattr(admission, "admit", fail)
        await harness.reconcile()
    await harness.reconcile()
    assert harness.state.job is not None


@pytest.mark.parametrize(
    "spec", [5, "x", [], [{}], {"tasks": 5}, {"tasks": {"name": "a"}}, {"tasks": [5, None]}]
)
async def test_a_job_with_any_other_json_in_its_spec_is_rejected(spec: Any) -> None:
    """Where the CRD has no schema, anything can be stored."""
    harness = Harness({**job("j"), "spec": spec})
    await harness.reconcile()
    assert harness.stored["state"]["reason"] == "InvalidJob"
    harness.take_over()
    await harness.reconcile()
    assert harness.pods() == []
