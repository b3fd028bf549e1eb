"""`vcjob run`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import vcjob
from tests.command_line import on_terminal, verb
from tests.local.conftest import container, eventually, job, ranks, task


def test_run_shows_lines_with_ranks_then_a_summary_and_returns_zero(file: Any) -> None:
    result = verb("run", file(job(*ranks("echo hello"))))
    assert result.returncode == 0, result.stderr
    assert sorted(line for line in result.stdout.splitlines() if line.endswith("hello")) == [
        "[0 master-0] hello",
        "[1 worker-0] hello",
        "[2 worker-1] hello",
    ]
    assert "job: Completed in" in result.stdout
    assert "Completed" in result.stderr


def test_a_failed_run_names_the_rank_its_last_words_and_the_victims(file: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\n\ndef step():\n    raise ValueError('loss is NaN')\n\n"
        "if os.environ['RANK'] == '1':\n    time.sleep(0.2)\n    step()\ntime.sleep(600)\n"
    )
    result = verb("run", file(job(*ranks(container([sys.executable, "train.py"])))), cwd=tmp_path)
    assert result.returncode == 1
    summary = result.stdout[result.stdout.index("job: Failed") :]
    assert "rank 1 (worker-0) ended with exit code 1, in container main" in summary
    assert "ValueError: loss is NaN" in summary
    assert "train.py:4 in step" in summary
    assert "only victims, ended after it: rank 0 (master-0), rank 2 (worker-1)" in summary


def test_run_with_json_prints_the_job_object_and_nothing_else(file: Any) -> None:
    result = verb("run", file(job(*ranks("echo hello"))), "-o", "json")
    document = json.loads(result.stdout)
    assert document["status"]["state"]["phase"] == "Completed"
    assert "[0 master-0] hello" in result.stderr


def test_run_reads_standard_input(file: Any) -> None:
    document = vcjob.to_yaml(job(task("a", "echo from stdin")))
    result = verb("run", "-", stdin=document)
    assert result.returncode == 0 and "[- a-0] from stdin" in result.stdout


def test_a_detached_run_goes_on_and_every_verb_sees_it(file: Any, tmp_path: Path) -> None:
    result = verb(
        "run",
        "--detach",
        file(job(*ranks("echo working; while [ ! -e end ]; do sleep 0.05; done"))),
        cwd=tmp_path,
    )
    assert result.returncode == 0
    eventually(lambda: vcjob.find("job").phase == "Running")
    listed = verb("list").stdout.splitlines()
    assert listed[0].split()[:3] == ["NAME", "PHASE", "PODS"] and listed[1].split()[:3] == [
        "job",
        "Running",
        "3/3",
    ]
    status = verb("status", "job").stdout
    assert "job: Running" in status and "job-worker-1" in status
    assert verb("wait", "job", "--timeout", "0.2").returncode == 124
    (tmp_path / "end").touch()
    followed = verb("logs", "-f", "job").stdout.splitlines()
    assert len(followed) == 3
    waited = verb("wait", "job")
    assert waited.returncode == 0 and "Completed" in waited.stdout
    events = json.loads(verb("events", "job", "-o", "json").stdout)
    assert events["kind"] == "List" and events["items"][0]["kind"] == "Event"
    items = json.loads(verb("list", "-o", "json").stdout)["items"]
    assert [item["metadata"]["name"] for item in items] == ["job"]


def test_a_pod_whose_sidecar_was_ended_succeeds_without_an_exit_code(file: Any) -> None:
    sidecar = container("while :; do sleep 0.05; done", "proxy", restartPolicy="Always")
    result = verb("run", file(job(task("a", "true", initContainers=[sidecar]))))
    assert result.returncode == 0
    assert "a-0 Succeeded\n" in result.stderr and "143" not in result.stderr


def test_a_command_that_does_not_exist_fails_the_job_with_a_sentence(file: Any) -> None:
    result = verb("run", file(job(*ranks(container(["no-such-program-here"]), restartPolicy="OnFailure"))))
    assert result.returncode == 1
    assert "command 'no-such-program-here': not found on this machine" in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


def test_an_image_without_a_command_is_refused_with_the_way_out(file: Any) -> None:
    bare = {"name": "main", "image": "someone/training:1"}
    result = verb("run", file(job(task("a", bare))))
    assert result.returncode == 2
    assert "a/main (someone/training:1)" in result.stderr and "--image" in result.stderr
    mapped = verb("run", file(job(task("a", bare))), "--image", "someone/training=echo mapped")
    assert mapped.returncode == 0 and "mapped" in mapped.stdout
    unused = verb("run", file(job(task("a", bare))), "--image", "someone/trainer=echo mapped")
    assert unused.returncode == 2 and "its images are someone/training:1" in unused.stderr


def test_an_invalid_job_is_refused_with_every_problem(file: Any) -> None:
    bad = job(task("a", "true", policies=[{"event": "Nope", "action": "AbortJob"}]), minAvailable=5)
    result = verb("run", file(bad))
    assert result.returncode == 2
    assert "spec.minAvailable" in result.stderr and "spec.tasks[0].policies[0].event" in result.stderr


def test_a_running_name_is_refused(file: Any) -> None:
    path = file(job(task("a", "sleep 600")))
    assert verb("run", "-d", path).returncode == 0
    result = verb("run", path)
    assert (
        result.returncode == 2 and "is already running" in result.stderr and "vcjob stop job" in result.stderr
    )
    verb("delete", "job")


def test_on_a_terminal_a_table_of_ranks_stands_below_the_lines(file: Any, tmp_path: Path) -> None:
    path = file(job(*ranks("sleep 0.4; echo hello; sleep 0.3")))
    code, text = on_terminal(tmp_path, "run", path, COLUMNS="100", LINES="40")
    assert code == 0
    assert "RANK  POD" in text and "\033[" in text
    assert "[1 worker-0]" in text and "Completed" in text
