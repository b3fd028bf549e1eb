"""`vcjob stacks`: real stacks of real ranks, and each thing that prevents one."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.command_line import verb
from tests.local.conftest import PATIENCE, Start, container, eventually, job, ranks, task
from vcjob.diagnosis.py_spy import main_thread, problem_of
from vcjob.errors import BackendError
from vcjob.local.live import stacks
from vcjob.local.live.stacks import find_py_spy

_PROGRAM = """\
import os, time

def compute():
    while True:
        sum(range(1000))

def wait_for_data():
    while True:
        time.sleep(0.05)

print("up", flush=True)
wait_for_data() if os.environ["RANK"] == "0" else compute()
"""

needs_py_spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")


@needs_py_spy
def test_every_rank_is_shown_at_its_place_also_below_a_shell(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_PROGRAM)
    handle = start(job(*ranks(container(f"{sys.executable} train.py; true"))), cwd=tmp_path)
    eventually(lambda: len([line for line in handle.logs() if line.text == "up"]) == 3)
    shown = verb("stacks", "job")
    assert shown.returncode == 0, shown.stderr
    first, second = shown.stdout.splitlines()
    assert first in ("ranks 1-2 are in compute, train.py:5", "ranks 1-2 are in compute, train.py:4"), (
        shown.stdout
    )
    assert second == "rank 0 is in wait_for_data, train.py:9"
    found = json.loads(verb("stacks", "job", "-o", "json", "--rank", "0").stdout)
    assert [frame["function"] for frame in found["ranks"][0]["frames"]] == ["wait_for_data", "<module>"]
    assert "wait_for_data  " in verb("stacks", "job", "--full").stdout


@needs_py_spy
def test_a_rank_that_is_not_python_says_so(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    assert verb("stacks", "job").stdout == "job-a-0 cannot be read: its process is not Python\n"


def test_an_unknown_rank_and_a_job_that_is_over_are_errors(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    wrong = verb("stacks", "job", "--rank", "7")
    assert wrong.returncode == 2 and "no running pod has the rank 7" in wrong.stderr
    handle.stop(now=True)
    handle.wait(PATIENCE)
    over = verb("stacks", "job")
    assert over.returncode == 2 and "no pod of the job 'job' is running: it is Terminated" in over.stderr
    image = verb("stacks", "job", "--image", "py-spy:1")
    assert image.returncode == 2 and "is for ranks on a cluster" in image.stderr
    missing = verb("stacks", "nosuch")
    assert missing.returncode == 2 and "Traceback" not in missing.stderr


def test_a_missing_py_spy_is_one_sentence_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stacks, "find_py_spy", lambda: None)
    with pytest.raises(BackendError, match="py-spy is not installed") as error:
        stacks.read_stacks([])
    assert error.value.hint == "install it with `pip install py-spy`"


_REFUSES = "#!/bin/sh\necho 'Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n"


@pytest.mark.parametrize("installed", [True, False], ids=["may-not-attach", "is-not-installed"])
def test_where_py_spy_cannot_be_used_the_stack_that_the_rank_reported_is_shown(
    installed: bool, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text("import torch.distributed\n" + _PROGRAM)
    (tmp_path / "torch" / "distributed").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").touch()
    (tmp_path / "torch" / "distributed" / "__init__.py").write_text("from . import distributed_c10d")
    c10d = tmp_path / "torch" / "distributed" / "distributed_c10d.py"
    c10d.write_text("import os\nis_initialized = lambda: True\nget_rank = lambda: int(os.environ['RANK'])\n")
    refuses = tmp_path / "py-spy"
    refuses.write_text(_REFUSES)
    refuses.chmod(0o755)
    monkeypatch.setattr(stacks, "find_py_spy", lambda: str(refuses) if installed else None)
    program = container([sys.executable, "train.py"])
    env = {**os.environ, "VCJOB_HANG_AFTER": "1"}  # the agent reports twice a second
    handle = start(job(*ranks(program)), cwd=tmp_path, env=env)
    eventually(lambda: len([line for line in handle.logs() if line.text == "up"]) == 3)
    reported = re.compile(r"rank 0 is in wait_for_data, train.py:10 \(reported \d+ s ago\)")
    eventually(lambda: reported.search(verb("stacks", "job").stdout), what="the report of rank 0")
    (found,) = json.loads(verb("stacks", "job", "-o", "json", "--rank", "0").stdout)["ranks"]
    assert found["frames"][0]["function"] == "wait_for_data" and found["reported_ago"] >= 0
    assert ("py-spy is not installed" in found["problem"]) is not installed


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        (
            "Error: Failed to find python version from target process\n\nStack backtrace:\n",
            "its process is not Python",
        ),
        (
            "Error: Failed to get process executable name. Check that the process is running.\n",
            "its process has ended",
        ),
        ("Error: Something new\nmore\n", "py-spy: Something new"),
        ("", "py-spy: py-spy failed without a message"),
    ],
)
def test_an_error_of_py_spy_becomes_one_sentence(printed: str, problem: str) -> None:
    assert problem_of(printed) == problem


@pytest.mark.parametrize(("user", "words"), [(0, "SYS_PTRACE"), (1000, "ptrace_scope")])
def test_a_refused_attach_says_what_would_permit_it(
    user: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert words in problem_of("Permission Denied: Try running again with elevated permissions")


def test_only_the_main_thread_counts() -> None:
    frame = {"name": "f", "filename": "/a.py", "line": 3, "module": None}
    threads = [
        {"os_thread_id": 8, "thread_name": "Thread-1", "frames": []},
        {"os_thread_id": 7, "thread_name": None, "frames": [frame] * 500},
    ]
    assert len(main_thread(json.dumps(threads).encode(), 7) or ()) == 200
    assert main_thread(b"[]", 7) == ()
    assert main_thread(b"not json", 7) is None


_COLLECTIVE = """\
import os, time
import torch
import torch.distributed as dist

def late():
    while True:
        time.sleep(0.05)

dist.init_process_group("gloo")
dist.barrier()
os.write(1, b"met\\n")  # one write: workers of torchrun share a pipe
if dist.get_rank() == 2:
    late()
dist.all_reduce(torch.ones(1))
"""


@pytest.mark.torch
@needs_py_spy
@pytest.mark.parametrize("warm", [False, True], ids=["started", "forked"])
def test_ranks_that_wait_in_a_collective_are_named_with_it(start: Start, tmp_path: Path, warm: bool) -> None:
    (tmp_path / "train.py").write_text(_COLLECTIVE)
    handle = start(job(*ranks(container([sys.executable, "train.py"]))), cwd=tmp_path, warm=warm)
    eventually(lambda: len([line for line in handle.logs() if line.text == "met"]) == 3)
    expected = ["ranks 0-1 wait in all_reduce, train.py:14", "rank 2 is in late, train.py:7"]
    eventually(lambda: [str(group) for group in handle.stacks().groups()] == expected, what=str(expected))


@pytest.mark.torch
@needs_py_spy
@pytest.mark.long
def test_workers_of_torchrun_are_shown_one_by_one(start: Start, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_COLLECTIVE)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=3",
        "train.py",
    ]
    handle = start(job(task("a", container(command))), cwd=tmp_path)
    eventually(lambda: len([line for line in handle.logs() if line.text == "met"]) == 3)
    expected = ["ranks 0-1 wait in all_reduce, train.py:14", "rank 2 is in late, train.py:7"]
    eventually(lambda: [str(group) for group in handle.stacks().groups()] == expected, what=str(expected))
