"""The handle of a job as programs and notebooks use it: waiting, failing, comparing, `with`."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest

import vcjob
from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, eventually, job, ranks, task

FAILS = "echo about to fail; exit 7"


def test_a_failed_job_raises_with_its_phase_its_report_and_its_handle(start: Start) -> None:
    handle = start(job(*ranks(FAILS, workers=1)))
    with pytest.raises(vcjob.JobFailed) as failed:
        handle.wait(PATIENCE, check=True)
    error = failed.value
    assert error.phase == "Failed" and error.handle == handle
    assert error.report is not None and error.report.culprit is not None
    assert error.report.culprit.exit_code == 7
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.phase, copy.report, copy.handle, copy.message) == (
        "Failed",
        error.report,
        None,
        error.message,
    )


def test_waiting_until_running_returns_while_the_job_runs(start: Start) -> None:
    handle = start(job(task("a", "exec sleep 600")))
    assert handle.wait(PATIENCE, until="Running") == "Running"
    assert not handle.done
    with pytest.raises(vcjob.WaitTimeout):
        handle.wait(0.01, until="Completed")


def test_waiting_for_a_phase_ends_with_the_job(start: Start) -> None:
    handle = start(job(task("a", FAILS)))
    assert handle.wait(PATIENCE, until="Aborted") == "Failed"
    with pytest.raises(vcjob.JobFailed):
        handle.wait(PATIENCE, until="Aborted", check=True)


def test_a_phase_that_does_not_exist_is_refused_with_those_that_do(start: Start) -> None:
    with pytest.raises(vcjob.UserError, match="no phase 'running'") as refused:
        start(job(task("a", "true"))).wait(until="running")
    assert "Running" in (refused.value.hint or "")


def test_leaving_the_block_waits_for_the_job(start: Start) -> None:
    with start(job(task("a", "true"))) as handle:
        assert isinstance(handle, vcjob.Handle)
    assert handle.done and handle.phase == "Completed"


def test_an_exception_in_the_block_stops_the_job(start: Start) -> None:
    with pytest.raises(KeyError), start(job(task("a", "exec sleep 600"))) as handle:
        handle.wait(PATIENCE, until="Running")
        raise KeyError("the user's own")
    assert handle.done and handle.phase == "Terminated"


def test_handles_of_the_same_run_are_equal(start: Start) -> None:
    first = start(job(task("a", "true")))
    first.wait(PATIENCE)
    found = vcjob.find("job")
    assert found == first and found is not first and len({found, first}) == 1
    again = start(job(task("a", "true")))
    assert again != first and again != "job"


def test_jobs_are_returned_as_they_end_and_phases_in_the_given_order(start: Start) -> None:
    long = start(job(task("a", "exec sleep 600"), name="long"))
    short = start(job(task("a", "true"), name="short"))
    ending = vcjob.as_completed([long, short], timeout=PATIENCE)
    assert next(ending) == short
    long.stop()
    assert list(ending) == [long]
    assert vcjob.wait_all([long, short, long]) == ["Terminated", "Completed", "Terminated"]
    with pytest.raises(vcjob.JobFailed, match="'long' is Terminated"):
        vcjob.wait_all([short, long], check=True)


def test_waiting_for_several_names_those_that_still_run(start: Start) -> None:
    handle = start(job(task("a", "exec sleep 600"), name="long"))
    handle.wait(PATIENCE, until="Running")
    with pytest.raises(vcjob.WaitTimeout, match=r"1 of the jobs still run after 0\.05 s: 'long' is Running"):
        vcjob.wait_all([handle], timeout=0.05)


def test_lines_have_the_time_at_which_they_were_written(finish: Start) -> None:
    handle = finish(job(task("a", "echo hello")))
    (line,) = handle.logs()
    assert line.time is not None and handle.created - 1 < line.time < handle.created + PATIENCE


def test_a_program_with_an_event_loop_can_run_find_wait_and_stop() -> None:
    async def program() -> None:
        short = await vcjob.run_async(job(task("a", "true"), name="short"))
        assert [each async for each in vcjob.as_completed_async([short], PATIENCE)] == [short]
        async with await vcjob.run_async(job(task("a", "exec sleep 600"), name="long")) as long:
            assert await long.wait_async(PATIENCE, until="Running") == "Running"
            assert await vcjob.find_async("long") == long
            with pytest.raises(vcjob.WaitTimeout):
                await vcjob.wait_all_async([short, long], 0.05)
            await long.stop_async(now=True)
        assert await vcjob.wait_all_async([long, short]) == ["Terminated", "Completed"]

    asyncio.run(program())


def test_the_verb_waits_for_a_phase(start: Start) -> None:

    handle = start(job(task("a", "exec sleep 600"), name="long"))
    assert verb("wait", "long", "--until", "Running").returncode == 0
    assert not handle.done
    handle.stop(now=True)
    eventually(lambda: handle.done)
    assert verb("wait", "long", "--until", "Running").returncode == 1


def test_the_status_as_json_has_the_ranks_and_the_failure_report(finish: Start) -> None:

    finish(job(*ranks(FAILS, workers=1), name="broken"))
    shown = verb("status", "broken", "-o", "json").stdout
    status = json.loads(shown)["status"]
    assert sorted(pod["rank"] for pod in status["pods"]) == [0, 1]
    assert status["failure"]["culprit"]["exitCode"] == 7
    assert verb("validate", "-", stdin=shown).returncode == 0
    finish(job(task("a", "true"), name="fine"))
    assert "failure" not in json.loads(verb("status", "fine", "-o", "json").stdout)["status"]
