"""`suspend`, `resume`, `restart`, `stop`, `delete`: what they do to a job and what they print."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.command_line import background, verb
from tests.local.conftest import PATIENCE, eventually, job, left_behind, ranks, task
from vcjob.sdk.local.handle import LocalHandle


@pytest.mark.slow
def test_a_suspended_job_is_followed_until_it_is_resumed_and_ends(file: Any, tmp_path: Path) -> None:
    running = background(tmp_path, "run", file(job(task("a", "echo begun; [ -e go ] || sleep 600"))))
    eventually(lambda: bool(vcjob.jobs()) and vcjob.find("job").phase == "Running")
    follower = background(tmp_path, "logs", "-f", "job")
    assert verb("suspend", "job").stdout == "job: suspended; continue with `vcjob resume job`\n"
    handle = vcjob.find("job")
    assert isinstance(handle, LocalHandle)
    eventually(lambda: handle.phase == "Aborted" and not handle.supervised)
    assert "suspended; continue with `vcjob resume job`" in verb("status", "job").stdout
    time.sleep(0.5)  # long enough for a follower that ends with the supervisor
    assert running.poll() is None and follower.poll() is None
    (tmp_path / "go").touch()
    assert verb("resume", "job").stdout == "job: resumed\n"
    output, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 0, output
    assert "job is suspended; continue with `vcjob resume job` in another shell" in output
    followed, _ = follower.communicate(timeout=PATIENCE)
    assert follower.returncode == 0 and "[- a-0] begun" in followed


def test_a_job_that_a_policy_aborts_ends_an_attached_run_with_a_failure(file: Any) -> None:
    policy = [{"event": "PodFailed", "action": "AbortJob"}]
    result = verb("run", file(job(task("a", "exit 3", policies=policy))))
    assert result.returncode == 1
    assert "job: Aborted" in result.stdout


def test_run_of_a_job_that_its_spec_suspends_ends_and_says_how_to_continue(file: Any) -> None:
    result = verb("run", file(job(task("a", "true"), suspend=True)))
    assert result.returncode == 1
    assert "suspended by spec.suspend; set it to false to continue" in result.stdout
    resumed = verb("resume", "job")
    assert resumed.returncode == 2 and "suspended by its own spec" in resumed.stderr


def test_run_of_a_job_that_another_shell_deletes_fails_with_a_sentence(file: Any, tmp_path: Path) -> None:
    running = background(tmp_path, "run", file(job(task("a", "sleep 600"))))
    eventually(lambda: bool(vcjob.jobs()) and vcjob.find("job").phase == "Running")
    vcjob.find("job").delete()
    output, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "Traceback" not in output and "damaged" not in output


def test_stop_is_reported_as_what_the_user_did(file: Any) -> None:
    verb("run", "--detach", file(job(task("a", "sleep 600"))))
    assert verb("stop", "job").returncode == 0
    assert "you stopped it" in verb("status", "job").stdout


def test_finished_jobs_are_deleted_by_age(file: Any) -> None:
    for name, command in (("done", "true"), ("busy", "sleep 600")):
        handle = vcjob.run(job(task("a", command), name=name))
        if name == "done":
            handle.wait(PATIENCE)
    assert verb("delete", "--finished", "--older-than", "7d").stdout == ""
    assert verb("delete", "--finished").stdout == "done: deleted\n"
    assert [handle.name for handle in vcjob.jobs()] == ["busy"]
    assert verb("delete").returncode == 2
    assert verb("delete", "busy", "--finished").returncode == 2
    assert verb("delete", "busy", "--older-than", "1d").returncode == 2


def test_actions_by_verb(file: Any) -> None:
    verb("run", "--detach", file(job(*ranks("sleep 600", workers=1))))
    handle = vcjob.find("job")
    eventually(lambda: handle.phase == "Running")
    assert verb("suspend", "job").returncode == 0
    eventually(lambda: handle.phase == "Aborted")
    assert verb("resume", "job").returncode == 0
    eventually(lambda: handle.phase == "Running")
    assert verb("restart", "job").returncode == 0
    eventually(lambda: sum(p.attempt == 2 and p.phase == "Running" for p in handle.pods()) == 2)
    stopped = verb("stop", "job")
    assert stopped.returncode == 0 and "Terminated" in stopped.stdout
    assert left_behind(handle) == []
    refused = verb("resume", "job")
    assert refused.returncode == 2 and "is over (Terminated)" in refused.stderr
    assert verb("wait", "job").returncode == 1
    assert verb("delete", "job").returncode == 0
    assert verb("status", "job").returncode == 2


@pytest.mark.parametrize(
    "words", [("logs",), ("status",), ("wait",), ("events",), ("stop",), ("delete",), ("resume",)]
)
def test_a_job_that_is_not_there_is_a_sentence_and_exit_code_two(words: tuple[str, ...]) -> None:
    result = verb(*words, "nowhere")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == "error: no job 'nowhere' here"
    assert "Traceback" not in result.stderr
