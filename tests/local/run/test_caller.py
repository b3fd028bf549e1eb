"""Which Python a Job runs: the one that `python` means in the caller's shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.conftest import container, job, task
from vcjob import to_yaml
from vcjob.local.run.caller import caller_environment

VCJOB = Path(sys.executable).parent / "vcjob"


def _environment(folder: Path, name: str) -> Path:
    """An environment with a `python` that says its name."""
    programs = folder / name / "bin"
    programs.mkdir(parents=True)
    python = programs / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo 3.99.0 2.99.0 || echo the python of {name}\n')
    python.chmod(0o755)
    return programs


def _shell(programs: Path, **variables: str) -> dict[str, str]:
    left_out = ("VIRTUAL_ENV", "CONDA_PREFIX")
    env = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**env, **variables, "PATH": f"{programs}:/usr/bin:/bin"}


def _run(command: list[str], folder: Path, env: dict[str, str]) -> str:
    (folder / "job.yaml").write_text(to_yaml(job(task("a", container(["python", "train.py"])))))
    done = subprocess.run(
        [*command, "run", "job.yaml"], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    return (done.stdout or done.stderr).splitlines()[0]


def test_an_active_conda_environment_is_used(tmp_path: Path) -> None:
    conda = _environment(tmp_path, "conda")
    env = _shell(conda, CONDA_PREFIX=str(conda.parent))
    assert _run([str(VCJOB)], tmp_path, env) == "[- a-0] the python of conda"


def test_a_vcjob_that_was_linked_into_the_path_uses_the_python_of_the_shell(tmp_path: Path) -> None:
    """As pipx and `uv tool` install it."""
    system = _environment(tmp_path, "system")
    (system / "vcjob").symlink_to(VCJOB)
    assert _run([str(system / "vcjob")], tmp_path, _shell(system)) == "[- a-0] the python of system"


@pytest.mark.parametrize("command", [[str(VCJOB)], [sys.executable, "-m", "vcjob.cli.main"]])
def test_a_virtual_environment_that_was_named_by_its_path_counts_as_active(
    tmp_path: Path, command: list[str]
) -> None:
    if sys.prefix == sys.base_prefix:
        pytest.skip("these tests do not run in a virtual environment")
    (tmp_path / "train.py").write_text("import sys\nprint(sys.prefix)\n")
    system = _environment(tmp_path, "system")
    assert _run(command, tmp_path, _shell(system)) == f"[- a-0] {sys.prefix}"


def test_doctor_reports_the_interpreter_that_jobs_will_use(tmp_path: Path) -> None:
    conda = _environment(tmp_path, "conda")
    env = _shell(conda, CONDA_PREFIX=str(conda.parent))
    done = subprocess.run(
        [str(VCJOB), "doctor", "--on", "local", "-o", "json"], env=env, capture_output=True, check=False
    )
    (check,) = [check for check in json.loads(done.stdout)["local"] if check["topic"] == "python"]
    assert check["message"] == f"`python` is {conda / 'python'}, Python 3.99.0 with PyTorch 2.99.0"


def test_a_conda_prefix_that_is_not_on_the_path_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDA_PREFIX", "/somewhere/conda")
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.setattr(sys, "prefix", "/project/.venv")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert caller_environment()["PATH"] == "/project/.venv/bin:/usr/bin"
