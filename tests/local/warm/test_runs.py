"""`vcjob run --warm`, whole: with a torch that is quickly imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vcjob
from tests import documents
from tests.command_line import verb
from tests.local.conftest import PATIENCE, eventually
from vcjob.local.machine import process

TORCH = """
import os
imported_by = os.getpid()
class cuda:
    is_initialized = staticmethod(lambda: False)
class default_generator:
    seed = staticmethod(lambda: 0)
def set_num_threads(number):
    pass
"""
RANK = """
import os, sys, torch
print('forked' if torch.imported_by != os.getpid() else 'fresh', os.environ['RANK'], flush=True)
"""


class Command:
    """The command in a folder of its own, with a made-up torch before the real one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "library").mkdir()
        (folder / "library" / "torch.py").write_text(TORCH)
        (folder / "library" / "numpy.py").touch()
        (folder / "rank.py").write_text(RANK)
        path = f"{folder / 'library'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep)
        self.env = {**os.environ, "VCJOB_HOME": str(folder / "home"), "PYTHONPATH": path}

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return verb(*words, cwd=self.folder, **self.env)

    def job(self, command: list[str], *, name: str = "job", replicas: int = 2, **annotations: str) -> str:
        container = {"name": "rank", "image": "none", "command": command}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        document = documents.job(
            name,
            {"name": "rank", "replicas": replicas, "template": template},
            plugins={"pytorch": ["--master=rank", "--worker=rank"]},
        )
        document["metadata"]["annotations"] = {
            f"vcjob.io/{key.replace('_', '-')}": value for key, value in annotations.items()
        }
        (self.folder / "job.yaml").write_text(vcjob.to_yaml(document))
        return "job.yaml"


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


def lines(result: subprocess.CompletedProcess[str]) -> list[str]:
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(line.split("] ")[1] for line in result.stdout.splitlines() if line.startswith("["))


def left(command: Command) -> list[int]:
    """Processes of any run of this home (the zygote of a run carries its mark)."""
    uids = {path.name for path in (command.folder / "home" / "jobs").glob("*/*/*") if path.is_dir()}
    return [pid for uid in uids for pid in process.marked(process.MARK_RUN, uid)]


@pytest.mark.parametrize("python", ["python", sys.executable, "python3"])
def test_the_ranks_of_a_warm_run_are_forked(command: Command, python: str) -> None:
    command.env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{command.env['PATH']}"
    result = command("run", "--warm", command.job([python, "rank.py"]))
    assert lines(result) == ["forked 0", "forked 1"]
    assert "not started warm" not in result.stderr


@pytest.mark.slow
def test_an_annotation_does_the_same(command: Command) -> None:
    assert lines(command("run", command.job([sys.executable, "rank.py"], warm="true"))) == [
        "forked 0",
        "forked 1",
    ]
    assert lines(command("run", command.job([sys.executable, "rank.py"]))) == ["fresh 0", "fresh 1"]


def test_other_modules_are_imported_on_request(command: Command) -> None:
    (command.folder / "library" / "mine.py").write_text("import os; imported_by = os.getpid()")
    (command.folder / "rank.py").write_text(
        "import os, sys; print('torch' in sys.modules, sys.modules['mine'].imported_by != os.getpid())"
    )
    result = command("run", "--warm", command.job([sys.executable, "rank.py"], warm_imports="mine, json"))
    assert lines(result) == ["False True"] * 2


def test_what_is_no_python_is_started_and_said_once(command: Command) -> None:
    result = command("run", "--warm", command.job(["sh", "-c", "echo rank $RANK"], replicas=3))
    assert lines(result) == ["rank 0", "rank 1", "rank 2"]
    assert result.stderr.count("not started warm: sh is not Python") == 1


def test_a_program_that_cannot_be_forked_is_noted_once(command: Command) -> None:
    (command.folder / "rank.py").write_text("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nprint('x')")
    result = command("run", "--warm", command.job([sys.executable, "rank.py"], replicas=3))
    assert lines(result) == ["x"] * 3
    assert result.stderr.count("not started warm: rank.py sets OMP_NUM_THREADS") == 1


def test_restarted_ranks_are_forked_too(command: Command) -> None:
    (command.folder / "rank.py").write_text(
        RANK + "\nmark = f\"seen-{os.environ['RANK']}\"\n"
        "if not os.path.exists(mark):\n    open(mark, 'w').close(); sys.exit(9)"
    )
    file = command.job([sys.executable, "rank.py"], warm="true")
    text = (command.folder / file).read_text().replace("Never", "OnFailure")
    (command.folder / file).write_text(text)
    result = command("run", file)
    assert lines(result) == ["forked 0", "forked 0", "forked 1", "forked 1"]


def test_a_failing_warm_rank_is_reported_like_a_plain_one(command: Command) -> None:
    (command.folder / "rank.py").write_text("def f():\n    raise ValueError('this one')\nf()")
    result = command("run", "--warm", command.job([sys.executable, "rank.py"], replicas=1))
    assert result.returncode == 1
    assert "ValueError: this one" in result.stdout
    assert "zygote" not in result.stdout


def test_nothing_is_left_of_a_warm_run(command: Command) -> None:
    command("run", "--warm", command.job([sys.executable, "rank.py"]))
    assert left(command) == []


def test_a_job_that_is_not_valid_leaves_nothing_either(command: Command) -> None:
    (command.folder / "job.yaml").write_text("kind: Job")
    assert command("run", "--warm", "job.yaml").returncode == 2
    assert left(command) == []


@pytest.mark.slow
def test_a_kept_server_serves_every_run_unless_it_is_forbidden(command: Command) -> None:
    started = command("warm", "start", "--python", sys.executable, "-o", "json")
    assert started.returncode == 0, started.stderr
    server = json.loads(started.stdout)["servers"][0]
    assert server["modules"] == ["torch", "numpy"]
    try:
        (command.folder / "rank.py").write_text("import torch; print(torch.imported_by)")
        by_server = [str(server["pid"])] * 2
        assert lines(command("run", command.job([sys.executable, "rank.py"]))) == by_server
        assert lines(command("run", "--warm", command.job([sys.executable, "rank.py"]))) == by_server
        forbidden = lines(command("run", command.job([sys.executable, "rank.py"], warm="false")))
        assert str(server["pid"]) not in forbidden
    finally:
        assert command("warm", "stop").returncode == 0
    assert str(server["pid"]) not in lines(command("run", command.job([sys.executable, "rank.py"])))


def test_a_killed_shim_is_no_harm_to_the_ranks_of_other_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path / "home"))
    made = Command(tmp_path)
    (tmp_path / "rank.py").write_text("import time; print('up', flush=True); time.sleep(600)")
    file = made.job([sys.executable, "rank.py"], warm="true", warm_imports="json")
    policy = "policies: [{event: PodFailed, action: RestartPod}]"
    (tmp_path / file).write_text((tmp_path / file).read_text().replace("spec:", f"spec:\n  {policy}", 1))
    handle = vcjob.run(tmp_path / file, cwd=tmp_path)
    try:
        before = eventually(lambda: up(handle))
        os.kill(next(pod.shim for pod in handle.pods() if pod.index == 0 and pod.shim), signal.SIGKILL)
        after = eventually(lambda: (now := up(handle)) and now[0] != before[0] and now)
        assert after[1] == before[1]
        assert process.is_same(before[1], None)
    finally:
        handle.stop(now=True)
        handle.wait(PATIENCE)


def up(handle: Any) -> dict[int, int] | None:
    """The pids of both ranks, once both run in their latest attempts."""
    pids = {pod.index: pod.containers[0].pid for pod in handle.pods() if pod.containers and not pod.finished}
    return pids if len(pids) == 2 and all(pids.values()) else None
