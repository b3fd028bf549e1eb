"""The verbs as a user types them: what they print, and their exit codes."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import vcjob
from tests.local.conftest import PATIENCE, container, eventually, job, left_behind, ranks, task
from vcjob.cli.main import main
from vcjob.sdk.local.handle import LocalHandle


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def verb(*words: str, folder: Path | None = None, stdin: str = "") -> Result:
    """The command line, in this process: what it prints and its exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err), chdir(folder or Path.cwd()):
            code = main(list(words))
    finally:
        sys.stdin = before
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]
    return Result(code, *texts)


def background(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "vcjob.cli.main", *words],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def written(document: dict[str, Any]) -> str:
        (tmp_path / "job.yaml").write_text(vcjob.to_yaml(document))
        return str(tmp_path / "job.yaml")

    return written


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
        "if os.environ['RANK'] == '1':\n    time.sleep(0.2)\n    step()\ntime.sleep(60)\n"
    )
    result = verb("run", file(job(*ranks(container([sys.executable, "train.py"])))), folder=tmp_path)
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
        folder=tmp_path,
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


def test_a_suspended_job_is_followed_until_it_is_resumed_and_ends(file: Any, tmp_path: Path) -> None:
    running = background(tmp_path, "run", file(job(task("a", "echo begun; [ -e go ] || sleep 60"))))
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
    running = background(tmp_path, "run", file(job(task("a", "sleep 60"))))
    eventually(lambda: bool(vcjob.jobs()) and vcjob.find("job").phase == "Running")
    vcjob.find("job").delete()
    output, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "Traceback" not in output and "damaged" not in output


def test_stop_is_reported_as_what_the_user_did(file: Any) -> None:
    verb("run", "--detach", file(job(task("a", "sleep 60"))))
    assert verb("stop", "job").returncode == 0
    assert "you stopped it" in verb("status", "job").stdout


def two_jobs(folder: Path) -> str:
    path = folder / "two.yaml"
    documents = [job(task("a", f"echo from {name}"), name=name) for name in ("one", "two")]
    path.write_text("---\n".join(vcjob.to_yaml(document) for document in documents))
    return str(path)


def test_all_jobs_of_a_file_run_at_once(tmp_path: Path) -> None:
    path = two_jobs(tmp_path)
    assert verb("validate", path).returncode == 0
    result = verb("run", path)
    assert result.returncode == 0, result.stderr
    assert "one [- a-0] from one\n" in result.stdout and "two [- a-0] from two\n" in result.stdout
    assert "one: Completed" in result.stdout and "two: Completed" in result.stdout
    assert [handle.name for handle in vcjob.jobs()] == ["one", "two"]
    listed = json.loads(verb("run", path, "-o", "json").stdout)
    assert [item["status"]["state"]["phase"] for item in listed["items"]] == ["Completed", "Completed"]


def test_one_job_of_a_file_runs_by_its_name(tmp_path: Path) -> None:
    path = two_jobs(tmp_path)
    result = verb("run", path, "--job", "two")
    assert result.returncode == 0 and "[- a-0] from two" in result.stdout
    assert [handle.name for handle in vcjob.jobs()] == ["two"]
    unknown = verb("run", path, "--job", "three")
    assert unknown.returncode == 2
    assert "no Job 'three'" in unknown.stderr and "its Jobs are: one, two" in unknown.stderr
    assert vcjob.run(path, job="one").wait(PATIENCE) == "Completed"
    with pytest.raises(vcjob.UserError, match="there are 2 Jobs"):
        vcjob.run(path)


def test_one_failed_job_of_a_file_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    documents = [
        job(task("a", command), name=name) for name, command in (("bad", "exit 3"), ("good", "true"))
    ]
    path.write_text("---\n".join(vcjob.to_yaml(document) for document in documents))
    result = verb("run", str(path))
    assert result.returncode == 1
    assert "bad: Failed" in result.stdout and "good: Completed" in result.stdout


@pytest.mark.parametrize(
    ("option", "value", "message", "hint"),
    [
        ("--rank", "99", "the job has no rank 99", "its ranks are: 0, 1"),
        ("-c", "nosuch", "the job has no container 'nosuch'", "its containers are: main"),
        ("--attempt", "7", "the job has no attempt 7", "its attempts are: 0"),
        ("--task", "nosuch", "the job has no task 'nosuch'", "its tasks are: master, worker"),
    ],
)
def test_logs_of_what_does_not_exist_are_an_error_that_lists_what_does(
    file: Any, option: str, value: str, message: str, hint: str
) -> None:
    verb("run", file(job(*ranks("echo hello", workers=1))))
    result = verb("logs", "job", option, value)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"error: {message}\nhint: {hint}\n"
    assert verb("logs", "job", "-f", option, value).returncode == (0 if option == "--attempt" else 2)


def test_logs_are_chosen_by_pattern_and_by_stream(file: Any) -> None:
    verb("run", file(job(task("a", "echo loss 1; echo step 2; echo loss 3 >&2"))))
    assert verb("logs", "job", "--grep", "loss [0-9]").stdout.count("loss") == 2
    assert verb("logs", "job", "--stderr").stdout == "[- a-0] loss 3\n"
    assert "no regular expression" in verb("logs", "job", "--grep", "(").stderr


def test_log_lines_have_the_time_at_which_they_were_received(file: Any) -> None:
    begin = time.time()
    verb("run", file(job(task("a", "echo one; sleep 0.5; echo two"))))
    lines = verb("logs", "job", "--timestamps").stdout.splitlines()
    assert [line.split()[0::3] for line in lines] == [["[-", "one"], ["[-", "two"]]
    stamps = [datetime.fromisoformat(line.split()[2]).timestamp() for line in lines]
    assert begin - 0.01 < stamps[0] < stamps[1] - 0.3 < time.time()
    documents = [
        json.loads(line) for line in verb("logs", "job", "--timestamps", "-o", "json").stdout.splitlines()
    ]
    assert [document["time"] for document in documents] == [line.split()[2] for line in lines]
    assert verb("logs", "job", "--timestamps", "--no-prefix").stdout.splitlines()[0].split()[1] == "one"


def test_jobs_are_listed_by_phase_and_labels_the_newest_last_up_to_a_limit(file: Any) -> None:
    for name, team, command in (("one", "a", "true"), ("two", "b", "exit 3"), ("three", "a", "sleep 60")):
        document = job(task("x", command), name=name)
        document["metadata"]["labels"] = {"team": team}
        handle = vcjob.run(document)
        if name != "three":
            handle.wait(PATIENCE)

    def listed(*words: str) -> list[str]:
        return [line.split()[0] for line in verb("list", *words).stdout.splitlines()[1:]]

    assert listed() == ["one", "two", "three"]
    assert listed("--running") == ["three"]
    assert listed("--phase", "failed", "--phase", "Completed") == ["one", "two"]
    assert listed("-l", "team=a") == ["one", "three"]
    assert listed("-l", "team!=a,team") == ["two"]
    assert verb("list", "-l", "a=b=c").returncode == 2
    limited = verb("list", "--limit", "1")
    assert limited.stdout.splitlines()[1].split()[0] == "three"
    assert limited.stderr == "vcjob: 2 older jobs not shown; `vcjob list --limit 0` shows all\n"
    assert len(json.loads(verb("list", "-o", "json", "--limit", "2").stdout)["items"]) == 2


def test_finished_jobs_are_deleted_by_age(file: Any) -> None:
    for name, command in (("done", "true"), ("busy", "sleep 60")):
        handle = vcjob.run(job(task("a", command), name=name))
        if name == "done":
            handle.wait(PATIENCE)
    assert verb("delete", "--finished", "--older-than", "7d").stdout == ""
    assert verb("delete", "--finished").stdout == "done: deleted\n"
    assert [handle.name for handle in vcjob.jobs()] == ["busy"]
    assert verb("delete").returncode == 2
    assert verb("delete", "busy", "--finished").returncode == 2
    assert verb("delete", "busy", "--older-than", "1d").returncode == 2


def test_a_pod_whose_sidecar_was_ended_succeeds_without_an_exit_code(file: Any) -> None:
    sidecar = container("while :; do sleep 0.05; done", "proxy", restartPolicy="Always")
    result = verb("run", file(job(task("a", "true", initContainers=[sidecar]))))
    assert result.returncode == 0
    assert "a-0 Succeeded\n" in result.stderr and "143" not in result.stderr


def test_actions_by_verb(file: Any) -> None:
    verb("run", "--detach", file(job(*ranks("sleep 60", workers=1))))
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


def test_an_invalid_job_is_refused_with_every_problem(file: Any) -> None:
    bad = job(task("a", "true", policies=[{"event": "Nope", "action": "AbortJob"}]), minAvailable=5)
    result = verb("run", file(bad))
    assert result.returncode == 2
    assert "spec.minAvailable" in result.stderr and "spec.tasks[0].policies[0].event" in result.stderr


def test_more_gpus_than_there_are_is_refused_before_anything_starts(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_gpus(tmp_path, monkeypatch, 2)
    greedy = container("true", resources={"limits": {"nvidia.com/gpu": 3}})
    result = verb("run", file(job(task("a", greedy))))
    assert result.returncode == 3
    assert "needs 3 GPUs at once, and this machine has 2" in result.stderr
    assert vcjob.jobs() == []


def test_gpus_are_given_to_one_pod_each_and_a_second_job_waits_for_them(
    file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = fake_gpus(tmp_path, monkeypatch, 2)
    one_each = container(
        "echo $CUDA_VISIBLE_DEVICES; while [ ! -e go ]; do sleep 0.02; done",
        resources={"limits": {"nvidia.com/gpu": 1}},
    )
    first = vcjob.run(job(task("a", one_each, replicas=2), name="first"), cwd=tmp_path)
    eventually(lambda: first.phase == "Running")
    second = vcjob.run(job(task("a", one_each), name="second"), cwd=tmp_path)
    assert isinstance(second, LocalHandle)
    eventually(lambda: second.status().state.reason == "InsufficientGPUs")
    assert second.phase == "Pending" and second.pods() == []
    second.suspend()
    eventually(lambda: second.phase == "Aborted" and not second.supervised)
    before = len(second.events())
    second.resume()  # its events are recorded although the pods of the same decision have no GPUs yet
    eventually(lambda: second.status().state.reason == "InsufficientGPUs")
    assert "ResumeJob" in second.events()[before]["message"]
    (tmp_path / "go").touch()
    assert first.wait(PATIENCE) == "Completed" and second.wait(PATIENCE) == "Completed"
    assert sorted(line.text for line in first.logs()) == sorted(names)


def test_pods_that_ask_for_no_gpu_see_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpus(tmp_path, monkeypatch, 1)
    handle = vcjob.run(job(task("a", "echo [${CUDA_VISIBLE_DEVICES-unset}]")), cwd=tmp_path)
    handle.wait(PATIENCE)
    assert [line.text for line in handle.logs()] == ["[]"]
    assert any("nvidia.com/gpu" in note for note in handle.notes())


def fake_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> list[str]:
    """A machine with GPUs, as far as `nvidia-smi -L` tells."""
    names = [f"GPU-{os.getpid()}-{folder.name}-{number}" for number in range(count)]
    lines = "".join(f"echo 'GPU {n}: NVIDIA Test (UUID: {name})'\n" for n, name in enumerate(names))
    tools = folder / "tools"
    tools.mkdir()
    (tools / "nvidia-smi").write_text(f"#!/bin/sh\n{lines}")
    (tools / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return names


def test_a_running_name_is_refused(file: Any) -> None:
    path = file(job(task("a", "sleep 60")))
    assert verb("run", "-d", path).returncode == 0
    result = verb("run", path)
    assert (
        result.returncode == 2 and "is already running" in result.stderr and "vcjob stop job" in result.stderr
    )
    verb("delete", "job")


STAGES = {
    "as soon as it is stored": lambda: bool(vcjob.jobs()),
    "with its first pod": lambda: bool(vcjob.jobs()) and bool(vcjob.jobs()[0].pods()),
    "while it runs": lambda: bool(vcjob.jobs()) and vcjob.jobs()[0].phase == "Running",
}


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_the_job_cleanly_at_every_stage(file: Any, tmp_path: Path, stage: str) -> None:
    command = background(tmp_path, "run", file(job(*ranks("sleep 60"))))
    eventually(STAGES[stage])
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=PATIENCE)
    assert command.returncode == 130, output
    assert "Traceback" not in output
    for handle in vcjob.jobs():
        assert handle.phase == "Terminated"
        assert left_behind(handle) == []


def test_a_second_ctrl_c_kills_what_does_not_want_to_end(file: Any, tmp_path: Path) -> None:
    stubborn = "trap '' TERM; touch up; while :; do sleep 0.05; done"
    command = background(tmp_path, "run", file(job(task("a", stubborn, terminationGracePeriodSeconds=60))))
    eventually((tmp_path / "up").exists)
    command.send_signal(signal.SIGINT)
    handle = vcjob.find("job")
    eventually(lambda: handle.phase == "Terminating")
    time.sleep(0.3)
    assert command.poll() is None
    command.send_signal(signal.SIGINT)
    output, _ = command.communicate(timeout=10)
    assert command.returncode == 130, output
    assert left_behind(handle) == []


def test_closing_the_terminal_does_not_end_the_job(file: Any, tmp_path: Path) -> None:
    command = background(tmp_path, "run", file(job(task("a", "touch up; sleep 1; touch end"))))
    eventually((tmp_path / "up").exists)
    command.send_signal(signal.SIGHUP)
    command.communicate(timeout=10)
    assert vcjob.find("job").wait(PATIENCE) == "Completed"
    assert (tmp_path / "end").exists()


def test_on_a_terminal_a_table_of_ranks_stands_below_the_lines(file: Any, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    command = subprocess.Popen(
        [sys.executable, "-m", "vcjob.cli.main", "run", file(job(*ranks("sleep 0.4; echo hello; sleep 0.3")))],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=tmp_path,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            data = os.read(ours, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    os.close(ours)
    assert command.wait(10) == 0
    text = shown.decode()
    assert "RANK  POD" in text and "\033[" in text
    assert "[1 worker-0]" in text and "Completed" in text


def test_a_broken_pipe_is_no_error(file: Any, tmp_path: Path) -> None:
    many = container("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    verb("run", file(job(task("a", many))))
    shell = f"{sys.executable} -m vcjob.cli.main logs job | head -1"
    result = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
    assert result.stdout == "[- a-0] line 0\n"
    assert "Traceback" not in result.stderr
