"""Every example is a valid Job and does, run as its README says, what it promises."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import vcjob

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NUMBERED = sorted(path.name for path in EXAMPLES.iterdir() if path.name[0].isdigit())

PROMISES = {
    "01-guide": [
        "rank 0 of 3 (gloo): sent 16",
        "rank 1 of 3 (gloo): received",
        "rank 2 of 3 (gloo): received",
    ],
    "02-ddp": [
        "4 ranks train from epoch 0 on",
        "rank 1 is killed",
        "4 ranks train from epoch 3 on",
        "trained: ",
        "epoch 5",
    ],
    "03-torchrun": [f"process {p} of node {n} is rank {2 * n + p} of 4" for n in (0, 1) for p in (0, 1)],
    "04-depends-on": ["serving", "reader 0 read numbers that add up to 4950", "reader 1 read"],
    "05-sidecar": ["rank done", "reported: step 0", "reported: step 4"],
    "06-homogeneous": [f"rank {rank} of 4: sum 10" for rank in range(4)],
    "07-policies": ["worker 0 is not ready, exit code 3", "worker 1 did its work at the second try"],
    "08-fsdp": ["rank 0 of 2 holds", "rank 1 of 2 holds", "step 20: loss", "trained"],
    "09-from-kubeflow": ["the master is rank 0 of 3"],
    "10-huggingface": ["2 ranks trained 20 steps: loss"],
    "11-lightning": ["rank 0 of 2: loss 0.0", "rank 1 of 2: loss 0.0"],
    "12-notebook": ["step 20/20 loss: 0.0", "rank 0 of 2 is done", "rank 1 of 2 is done"],
}
#: Examples that need more than torch; they take long to import, so they run once.
PACKAGES = {"10-huggingface": ("transformers", "accelerate"), "11-lightning": ("lightning",)}
WITHOUT_TORCH = ("04-depends-on", "05-sidecar", "07-policies", "09-from-kubeflow")
#: Examples that start many processes with torch, or a notebook.
LONG = ("02-ddp", "03-torchrun", "06-homogeneous", "12-notebook")
WITH_TORCH = [
    pytest.param(name, marks=pytest.mark.long if name in LONG else ())
    for name in NUMBERED
    if name not in (*WITHOUT_TORCH, *PACKAGES)
]


def test_each_has_a_promise_that_is_tested_and_a_line_in_the_readme() -> None:
    assert sorted(PROMISES) == NUMBERED
    readme = (EXAMPLES / "README.md").read_text()
    assert all(f"[{name}]({name})" in readme for name in NUMBERED)


@pytest.mark.parametrize("name", NUMBERED)
def test_it_is_valid_without_a_warning_and_can_be_rendered(name: str) -> None:
    file = EXAMPLES / name / "job.yaml"
    assert vcjob.validate(file) == []
    kinds = [obj["kind"] for obj in vcjob.render(file)]
    assert "Pod" in kinds


def run_example(name: str, tmp_path: Path, *words: str) -> str:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("*.pt"))
    env = {**os.environ, "VCJOB_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "vcjob.cli.main", "run", *words, "job.yaml"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Completed" in done.stdout
    return done.stdout


def with_a_free_port() -> list[str]:
    """The changes of 04-depends-on that keep it from a port that is in use."""
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    probe = "spec.tasks[data].template.spec.containers[0].readinessProbe"
    return ["--env", f"DATA_PORT={port}", "--set", f"{probe}.tcpSocket.port={port}"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_it_does_what_it_promises(name: str, tmp_path: Path) -> None:
    output = run_example(name, tmp_path, *(with_a_free_port() if name == "04-depends-on" else []))
    assert [promise for promise in PROMISES[name] if promise not in output] == [], output


@pytest.mark.torch
@pytest.mark.parametrize("name", WITH_TORCH)
@pytest.mark.parametrize(
    "words", [pytest.param([], id="plain"), pytest.param(["--warm"], id="warm", marks=pytest.mark.long)]
)
def test_it_does_what_it_promises_with_torch(name: str, words: list[str], tmp_path: Path) -> None:
    output = run_example(name, tmp_path, *words)
    assert [promise for promise in PROMISES[name] if promise not in output] == [], output


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.parametrize("name", PACKAGES)
def test_it_does_what_it_promises_with_its_packages(name: str, tmp_path: Path) -> None:
    for package in PACKAGES[name]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} of requirements/examples.txt is not installed")
    output = run_example(name, tmp_path)
    assert [promise for promise in PROMISES[name] if promise not in output] == [], output


@pytest.mark.torch
@pytest.mark.long
def test_the_notebook_runs_its_function_and_shows_the_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip(
        "nbclient", reason="the packages of requirements/pages.txt are not installed"
    )
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    folder = EXAMPLES / "12-notebook"
    notebook = nbformat.read(folder / "train.ipynb", 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=240, resources=resources).execute()
    assert (tmp_path / "job.yaml").read_text() == (folder / "job.yaml").read_text()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    tables = [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]
    assert len(tables) == 1, "one table is updated"
    assert "<b>notebook: Completed</b>\n0 notebook-master-0 Succeeded" in tables[0]
    printed = "".join(output.get("text", "") for output in outputs)
    assert [promise for promise in PROMISES["12-notebook"] if promise not in printed] == [], printed


@pytest.mark.torch
def test_every_rank_of_the_guides_job_succeeds_although_the_master_completes_it(tmp_path: Path) -> None:
    table = run_example("01-guide", tmp_path).rpartition("RANK  POD")[2].splitlines()[1:]
    assert [line.split()[2:4] for line in table if line.strip()] == [["Succeeded", "0"]] * 3, table


def test_the_job_from_kubeflow_is_what_convert_writes() -> None:
    folder = EXAMPLES / "09-from-kubeflow"
    converted = vcjob.convert_jobs(folder / "pytorchjob.yaml")
    assert converted.notes == []
    assert (folder / "job.yaml").read_text() == vcjob.to_yaml(converted.documents[0])
