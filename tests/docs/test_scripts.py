"""The scripts behind `make`: what tests need and a machine lacks is named and skipped; what vcjob needs is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def without_packages(tmp_path: Path) -> dict[str, str]:
    """The environment of a root user on a Debian that has none of the packages and cannot reach its mirror."""
    programs = {
        "id": "echo 0",
        "dpkg-query": "exit 1",
        "apt-get": "echo 'E: Unable to locate package' >&2; exit 100",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if name != "VCJOB_TESTBED"}
    return {**environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def test_debian_packages_that_cannot_be_installed_are_no_failure(without_packages: dict[str, str]) -> None:
    done = subprocess.run(
        [ROOT / "scripts/test-packages"], env=without_packages, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "the tests that need them are skipped: E: Unable to locate package" in done.stdout


def answer(environment: dict[str, str], **programs: str) -> str:
    """What the script says where these programs of the machine do this."""
    folder = Path(environment["PATH"].partition(":")[0])
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    done = subprocess.run([ROOT / "scripts/test-packages"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].partition("are skipped: ")[2]


def test_the_reason_for_missing_debian_packages_is_the_mirror_that_cannot_be_reached(
    without_packages: dict[str, str],
) -> None:
    """apt-get only warns of the mirror, and then does not know the package."""
    warns = (
        "case $* in\n"
        "*update*) echo 'W: Failed to fetch http://mirror/x  Could not connect' >&2; echo 'W: ignored' >&2;;\n"
        "*) echo 'E: Unable to locate package' >&2; exit 100;;\n"
        "esac"
    )
    assert (
        answer(without_packages, **{"apt-get": warns})
        == "W: Failed to fetch http://mirror/x  Could not connect"
    )


def test_a_mirror_of_debian_that_does_not_answer_is_not_waited_for_long(
    without_packages: dict[str, str],
) -> None:
    never = 'case $* in "--foreground 2m apt-get -qq update") exit 124;; esac; exit 1'
    assert answer(without_packages, timeout=never) == "their mirror did not answer within 2 minutes"


def test_debian_packages_that_cannot_be_installed_fail_where_nothing_may_be_skipped(
    without_packages: dict[str, str],
) -> None:
    environment = {**without_packages, "VCJOB_TESTBED": "require"}
    done = subprocess.run([ROOT / "scripts/test-packages"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch does not depend on triton")
@pytest.mark.parametrize(
    ("gpu", "expected"),
    [(True, ["torch numpy"]), (False, ["--no-deps torch", "--no-warn-conflicts -r /dev/stdin numpy"])],
)
def test_without_a_gpu_torch_is_installed_without_the_compiler_for_gpus(
    tmp_path: Path, gpu: bool, expected: list[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >>{tmp_path}/calls\n'
        'case "$*" in\n'
        "*'import torch, numpy'*) exit 1;;\n"
        "*requires*) echo sympy; exit 0;;\n"
        "esac\n"
    )
    python.chmod(0o755)
    for name in ("uname", "sh", "cat"):
        (tmp_path / name).symlink_to(shutil.which(name) or name)
    if gpu:
        (tmp_path / "nvidia-smi").symlink_to(python)
    subprocess.run([ROOT / "scripts/install-torch", python], env={"PATH": str(tmp_path)}, check=True)
    installed = [line.partition("install -q ")[2] for line in (tmp_path / "calls").read_text().splitlines()]
    assert [line for line in installed if line] == expected


def test_a_build_of_the_site_that_is_ended_leaves_no_file(tmp_path: Path) -> None:
    python, files = tmp_path / "python", tmp_path / "files"
    files.mkdir()
    python.write_text("#!/bin/sh\nkill -TERM $PPID\n")
    python.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(files)}
    done = subprocess.run([ROOT / "scripts/build-site", python], env=environment, timeout=60)
    assert done.returncode == 1
    assert list(files.iterdir()) == []


@pytest.fixture
def create_venv(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs scripts/create-venv with a Python whose `venv` makes a bin/python and then does what is given."""

    def run(after: str) -> subprocess.CompletedProcess[str]:
        python = tmp_path / "python"
        python.write_text(
            "#!/bin/sh\n"
            '[ "$1 $2" = "-m venv" ] || exit 0\n'
            'for folder do :; done; mkdir -p "$folder/bin"\n'
            'printf "#!/bin/sh\\n[ -e $folder/pip ]\\n" >"$folder/bin/python"; chmod +x "$folder/bin/python"\n'
            f"{after}\n"
        )
        python.chmod(0o755)
        command = [ROOT / "scripts/create-venv", python, tmp_path / "venv"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("after", ["exit 1", "exit 0", 'touch "$folder/pip"; kill -TERM $PPID; exit 1'])
def test_an_environment_that_was_not_completed_is_removed(
    create_venv: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path, after: str
) -> None:
    done = create_venv(after)
    assert done.returncode == 1
    assert not (tmp_path / "venv").exists()
    if "kill" not in after:
        assert "On Debian and Ubuntu: apt install python3-venv" in done.stderr


def test_an_environment_without_pip_is_replaced_and_one_with_pip_is_kept(
    create_venv: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "venv/bin/python").chmod(0o755)
    assert create_venv('touch "$folder/pip"').returncode == 0
    assert create_venv("exit 1").stdout == ""
    assert (tmp_path / "venv/pip").exists()


@pytest.mark.parametrize("ensurepip", [True, False])
def test_an_environment_with_packages_is_not_erased(
    create_venv: Callable[[str], subprocess.CompletedProcess[str]], tmp_path: Path, *, ensurepip: bool
) -> None:
    """`uv venv` makes environments without pip. Debian's Python may have no ensurepip."""
    package = tmp_path / "venv/lib/python3.12/site-packages/numpy-2.0.dist-info"
    package.mkdir(parents=True)
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir()
    ensure = f"touch {tmp_path}/pip" if ensurepip else "exit 1"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *ensurepip*) {ensure};; *pip*) [ -e {tmp_path}/pip ];; esac\n'
    )
    python.chmod(0o755)
    done = create_venv('rm -rf "$folder"/lib; touch "$folder/pip"')
    assert package.exists()
    wrong = f"{tmp_path}/venv has packages but no pip: install pip into it, or delete it\n"
    assert (done.returncode, done.stderr) == ((0, "") if ensurepip else (1, wrong))
