"""`vcjob exec` and a debugger on one rank of this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests.local.conftest import PATIENCE, Start, container, eventually, job, left_behind, ranks, task
from vcjob.errors import BackendError

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "debugging.md"


def execute(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vcjob", "exec", *words],
        input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_a_command_has_the_environment_and_the_folder_of_its_rank(start: Start, tmp_path: Path) -> None:
    handle = start(job(*ranks("sleep 600")), cwd=tmp_path)
    eventually(lambda: handle.phase == "Running")
    for rank in (0, 2):
        ran = execute(
            "job", "--rank", str(rank), "--", "sh", "-c", "echo $RANK of $WORLD_SIZE in $PWD; exit 7"
        )
        assert (ran.returncode, ran.stdout, ran.stderr) == (7, f"{rank} of 3 in {tmp_path}\n", "")


def test_standard_input_reaches_the_command(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    assert execute("job", "--", "cat", stdin="hello\n").stdout == "hello\n"


def test_a_command_sees_the_mounts_of_its_rank(start: Start) -> None:
    writer = container(
        "echo rows > ${VCJOB_MOUNT_VCJOB_DATA:-/vcjob-data}/table; touch up; sleep 600",
        volumeMounts=[{"name": "data", "mountPath": "/vcjob-data"}],
    )
    handle = start(job(task("a", writer, volumes=[{"name": "data", "emptyDir": {}}])))
    eventually(lambda: handle.phase == "Running")
    shown = "cat ${VCJOB_MOUNT_VCJOB_DATA:-/vcjob-data}/table"
    eventually(lambda: execute("job", "--", "sh", "-c", shown).stdout == "rows\n")


@pytest.mark.slow
def test_a_choice_that_names_no_pod_or_several_is_an_error_that_lists_them(start: Start) -> None:
    handle = start(job(*ranks("sleep 600", workers=1)))
    eventually(lambda: handle.status().running == 2)
    for words in ((), ("--rank", "9"), ("--task", "nosuch")):
        ran = execute("job", *words, "--", "true")
        assert ran.returncode == 2
        assert "running are: rank 0 (master-0), rank 1 (worker-0)" in ran.stderr
    assert "no container 'nosuch'" in execute("job", "--rank", "0", "-c", "nosuch", "--", "true").stderr
    assert "not found" in execute("job", "--rank", "0", "--", "no-such-program").stderr


def test_a_job_that_is_over_has_nothing_to_run_a_command_in(finish: Start) -> None:
    finish(job(task("a", "true")))
    ran = execute("job", "--", "true")
    assert ran.returncode == 2 and "no pod of the job 'job' is running: it is Completed" in ran.stderr
    assert "`vcjob timeline` shows" in ran.stderr, "without a name, which would need its namespace or cluster"


def test_a_command_ends_with_its_pod(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    command = ["sh", "-c", "sleep 600 & echo up; wait"]
    with subprocess.Popen(
        [sys.executable, "-m", "vcjob", "exec", "job", "--", *command], stdout=subprocess.PIPE
    ) as running:
        assert running.stdout is not None and running.stdout.readline() == b"up\n"
        handle.stop(now=True)
        handle.wait(PATIENCE)
        assert running.wait(PATIENCE) != 0
    assert left_behind(handle) == []


@pytest.mark.parametrize("opens_processes", [True, False])
def test_a_command_that_begins_while_its_pod_ends_is_ended(
    start: Start, monkeypatch: pytest.MonkeyPatch, opens_processes: bool
) -> None:
    """The Pythons of uv and conda have no `os.pidfd_open`."""
    if not opens_processes:
        monkeypatch.delattr(os, "pidfd_open")
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    began = subprocess.Popen

    def and_the_pod_ends(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        handle.stop(now=True)
        handle.wait(PATIENCE)
        return began(*arguments, **options)

    monkeypatch.setattr("vcjob.local.pod.enter.subprocess.Popen", and_the_pod_ends)
    with pytest.raises(BackendError, match="ended with the container 'main' of job-a-0"):
        handle.exec(["sleep", "600"])
    assert left_behind(handle) == []


def test_a_command_runs_with_a_python_that_cannot_open_processes(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    assert handle.exec(["sh", "-c", "exit 7"]) == 7


def test_the_debugger_of_the_documentation_stops_one_rank(start: Start, tmp_path: Path) -> None:
    """The page's own code, with a client that types what the page types."""
    recipe = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)[0]
    (tmp_path / "train.py").write_text(
        f"{recipe}\nloss = 41\nbreakpoint_on(rank=1)\nprint('loss is', loss)\n"
    )
    handle = start(job(*ranks(container([sys.executable, "train.py"]), workers=1)), cwd=tmp_path)
    eventually(lambda: any("waiting for a debugger" in line.text for line in handle.logs(ranks=(1,))))
    attach = re.findall(r"vcjob exec JOB --rank 1 -- (python -c '.*?')", PAGE.read_text(), re.S)[0]
    client = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m vcjob exec job --rank 1 -- {attach}"],
        input="p loss + 1\nloss = 43\nc\n", capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert "42" in client.stdout, client.stdout + client.stderr
    assert handle.wait(PATIENCE) == "Completed"
    assert [line.text for line in handle.logs(ranks=(1,))][-1] == "loss is 43"
    assert vcjob.find("job").status().succeeded == 2
