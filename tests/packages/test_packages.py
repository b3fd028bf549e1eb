"""The packages of a release, installed into empty environments without torch: with pip, pipx and uv."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.release import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
VERSION = "99.1.2"
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: hello}
spec:
  plugins: {pytorch: []}
  tasks:
    - name: master
      replicas: 1
      template: {spec: {restartPolicy: Never, containers: [{name: a, image: busybox, command: [sh, -c, 'echo rank $RANK']}]}}
"""


def call(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """Its output; the variables of this environment that name a Python or a folder of packages are left out."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME")}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**clean, **(env or {})}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def check_installed(vcjob: Path, folder: Path) -> None:
    """The command works in an environment without torch: help, validation, and a Job of a shell command."""
    (folder / "job.yaml").write_text(JOB)
    home = {"VCJOB_HOME": str(folder / "home")}
    assert VERSION in call(vcjob, "--version", env=home)
    assert "Usage: vcjob" in call(vcjob, "--help", env=home)
    call(vcjob, "validate", "job.yaml", cwd=folder, env=home)
    shown = call(vcjob, "run", "job.yaml", cwd=folder, env=home)
    assert "rank 0" in shown and "hello: Completed" in shown
    assert json.loads(call(vcjob, "status", "hello", "-o", "json", env=home))["status"]["succeeded"] == 1


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dry run. It installs the dependencies, so it needs the package registry."""
    for module in ("build", "cyclonedx_py", "twine"):
        if importlib.util.find_spec(module) is None:
            pytest.skip("the packages of requirements/release.txt are not installed")
    base = tmp_path_factory.getbasetemp()
    out = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "release"
    with open(out.with_suffix(".lock"), "w") as lock:  # one worker builds, the others use the result
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (out / "SHA256SUMS").exists():
            before = call("git", "status", "--porcelain", cwd=ROOT)
            options = ("--dry-run", "--no-image", "--out", str(out))
            call(sys.executable, "-m", "scripts.release", VERSION, *options, cwd=ROOT)
            assert call("git", "status", "--porcelain", cwd=ROOT) == before
    return out


@pytest.fixture(scope="module")
def wheel(released: Path) -> Path:
    (found,) = released.glob("*.whl")
    return found


def test_a_dry_run_builds_everything_with_checksums_and_changes_nothing(released: Path) -> None:
    assert sorted(path.name for path in released.iterdir()) == [
        "NOTES.md",
        "SHA256SUMS",
        f"vcjob-{VERSION}-py3-none-any.whl",
        f"vcjob-{VERSION}.cdx.json",
        f"vcjob-{VERSION}.tar.gz",
        f"vcjob-chart-{VERSION}.tgz",
    ]
    assert call("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=released) == ""
    with tarfile.open(released / f"vcjob-chart-{VERSION}.tgz") as chart:
        member = chart.extractfile("vcjob/Chart.yaml")
        assert member is not None and f'appVersion: "{VERSION}"' in member.read().decode()


def test_the_sbom_lists_the_wheel_and_its_dependencies_and_nothing_else(released: Path) -> None:
    sbom = json.loads((released / f"vcjob-{VERSION}.cdx.json").read_text())
    found = {component["name"].lower(): component["version"] for component in sbom["components"]}
    assert sbom["bomFormat"] == "CycloneDX"
    assert found["vcjob"] == VERSION
    assert {"aiohttp", "click", "msgspec", "pyyaml", "cryptography"} <= set(found)
    assert not {"pip", "pytest", "torch", "ruff"} & set(found)


def test_the_wheel_has_the_package_its_license_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names} == {"vcjob", f"vcjob-{VERSION}.dist-info"}
    assert "vcjob/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)


def test_the_wheel_runs_in_an_empty_environment_without_torch(wheel: Path, tmp_path: Path) -> None:
    python = tmp_path / "env/bin/python"
    call(sys.executable, "-m", "uv", "venv", "-q", "--python", sys.executable, tmp_path / "env")
    call(sys.executable, "-m", "uv", "pip", "install", "-q", "--python", python, wheel)
    assert "torch" not in call(sys.executable, "-m", "uv", "pip", "list", "--python", python)
    check_installed(tmp_path / "env/bin/vcjob", tmp_path)
    missing = subprocess.run(
        [tmp_path / "env/bin/vcjob", "run", ROOT / "examples/01-guide/job.yaml"],
        env={**os.environ, "VCJOB_HOME": str(tmp_path / "home")}, capture_output=True, text=True,
    )  # fmt: skip
    assert missing.returncode == 3 and "torch" in missing.stderr and "hint: " in missing.stderr


def test_pipx_installs_the_command(wheel: Path, tmp_path: Path) -> None:
    folders = {"PIPX_HOME": str(tmp_path / "pipx"), "PIPX_BIN_DIR": str(tmp_path / "bin")}
    call(sys.executable, "-m", "pipx", "install", "--python", sys.executable, wheel, env=folders)
    check_installed(tmp_path / "bin/vcjob", tmp_path)


def test_uv_installs_the_command_from_the_sdist(released: Path, tmp_path: Path) -> None:
    (sdist,) = released.glob("*.tar.gz")
    folders = {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    call(sys.executable, "-m", "uv", "tool", "install", "-q", "--python", sys.executable, sdist, env=folders)
    check_installed(tmp_path / "bin/vcjob", tmp_path)
