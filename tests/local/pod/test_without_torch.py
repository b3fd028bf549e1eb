"""A Python without PyTorch: an error with a hint, before anything starts if possible."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import click
import pytest

import vcjob
from tests.local.conftest import container, job, ranks

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "examples" / "01-guide" / "job.yaml"


@pytest.fixture(scope="session")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with vcjob and its dependencies, without torch."""
    folder = tmp_path_factory.mktemp("bare")
    packages = folder / "packages"
    packages.mkdir()
    for entry in Path(click.__file__).parents[1].iterdir():
        if not entry.name.startswith(("torch", "functorch")) and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "vcjob.pth").write_text(f"{ROOT / 'src'}\n{packages}\n")
    missing = subprocess.run([python, "-c", "import torch"], capture_output=True, text=True)
    assert "No module named 'torch'" in missing.stderr
    return python


def vcjob_of(python: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    return subprocess.run(
        [python, "-m", "vcjob.cli.main", *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "options",
    [
        (),
        pytest.param(("--warm",), marks=pytest.mark.slow),
        pytest.param(("--detach",), marks=pytest.mark.slow),
    ],
)
def test_the_guides_job_is_refused_with_the_way_out(
    bare: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    run = vcjob_of(bare, "run", *options, str(GUIDE), cwd=tmp_path)
    assert run.returncode == 3
    assert run.stdout == ""
    error, hint = run.stderr.splitlines()[-2:]
    assert error.startswith("error: ") and f"needs PyTorch, which {bare} does not have" in error
    assert hint.startswith(f"hint: {bare} -m pip install torch")
    assert vcjob.jobs() == []


@pytest.mark.slow
def test_a_program_of_the_users_own_fails_with_the_way_out(bare: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(job(*ranks(container(["python", "train.py"])))))
    run = vcjob_of(bare, "run", "job.yaml", cwd=tmp_path)
    assert run.returncode == 1
    assert "ModuleNotFoundError: No module named 'torch'" in run.stdout
    assert "cannot import torch: it is not installed in the rank's Python" in run.stdout
    assert "pip install torch" in run.stdout
    assert "Traceback" not in run.stderr


@pytest.mark.slow
def test_a_job_that_brings_its_own_path_of_modules_is_let_through(bare: Path, tmp_path: Path) -> None:
    """Whether torch is on that path is known only when the program runs, which then reports it."""
    document = vcjob.load(GUIDE).job.doc
    for task in document["spec"]["tasks"]:
        for each in task["template"]["spec"]["containers"]:
            each["env"] = [{"name": "PYTHONPATH", "value": str(tmp_path / "libraries")}]
    (tmp_path / "job.yaml").write_text(vcjob.to_yaml(document))
    run = vcjob_of(bare, "run", "job.yaml", cwd=tmp_path)
    assert run.returncode == 1
    assert f"PyTorch is not installed for {bare}: pip install torch" in run.stdout
