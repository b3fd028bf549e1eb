"""Checks what this machine can run and what is missing. `vcjob doctor` prints the checks.

It changes nothing and knows no job: it looks for the platform, the folder of the jobs, `python` with PyTorch, GPUs
and limits. A check never raises; what it cannot find out is part of its result.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping

from vcjob.diagnosis.check import Check, missing, note, ok
from vcjob.errors import StoreError, UserError
from vcjob.local.machine.gpus import has_nvidia, list_gpus
from vcjob.local.pod.limits import usable_limits
from vcjob.local.run import locks
from vcjob.local.run.caller import caller_environment
from vcjob.local.run.home import home_folder

_PATIENCE = 30.0
_VERSIONS = """
import importlib.metadata, platform
try:
    torch = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    torch = ""
print(platform.python_version(), torch)
"""


def examine(env: Mapping[str, str] = os.environ) -> Iterator[Check]:
    yield _platform()
    yield _home()
    yield _python(caller_environment() if env is os.environ else env)
    yield _gpus(env)
    yield _limits()


def _platform() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    platform: str = (
        sys.platform
    )  # a plain string, so that the type checker does not narrow it to its own platform
    if platform == "linux":
        return ok("machine", f"Linux, Python {version}, {os.cpu_count()} processors")
    if platform == "darwin":
        return note(
            "machine",
            f"macOS, Python {version}: jobs run, but processes that leave the session of their pod may survive it",
            "use Linux where no process may be left behind",
        )
    return missing("machine", f"{platform} cannot run jobs", "use WSL on Windows, or a cluster")


def _home() -> Check:
    try:
        folder = home_folder()
    except UserError as error:
        return missing("jobs", error.message, error.hint)
    place = os.path.abspath(folder)
    while not os.path.exists(place):
        place = os.path.dirname(place)
    try:
        locks.check_supported(place)
    except StoreError as error:
        return missing(
            "jobs",
            f"{folder} cannot be used: {error.message}",
            error.hint or "set VCJOB_HOME to a folder of yours",
        )
    return ok("jobs", f"kept in {folder}")


def _python(env: Mapping[str, str]) -> Check:
    """The interpreter that `python` in a Job means, and its PyTorch. Not necessarily the one that runs vcjob."""
    python = shutil.which("python", path=env.get("PATH"))
    if python is None:
        return note(
            "python",
            "there is no `python` on PATH; Jobs whose command is `python` cannot start",
            "activate a virtual or conda environment",
        )
    try:
        asked = subprocess.run(
            [python, "-c", _VERSIONS], env=dict(env), capture_output=True, text=True, timeout=_PATIENCE, check=True
        )  # fmt: skip
        version, torch = asked.stdout.splitlines()[-1].split(" ")
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        return missing("python", f"`python` is {python}, which cannot be run: {error}")
    if torch:
        return ok("python", f"`python` is {python}, Python {version} with PyTorch {torch}")
    return note(
        "python",
        f"`python` is {python}, Python {version} without PyTorch",
        f"{python} -m pip install torch, or activate the environment that has it",
    )


def _gpus(env: Mapping[str, str]) -> Check:
    if not has_nvidia(env):
        return note(
            "GPUs", "none: there is no nvidia-smi; `vcjob run` rejects Jobs that request nvidia.com/gpu"
        )
    found = list_gpus(env)
    if not found:
        return missing(
            "GPUs",
            "nvidia-smi exists but lists no GPU that may be used",
            "`nvidia-smi -L` and CUDA_VISIBLE_DEVICES say why",
        )
    return ok("GPUs", f"{len(found)} can be used")


def _limits() -> Check:
    held = usable_limits()
    if {"cpu", "memory"} <= held:
        return ok("limits", "cpu and memory limits of containers are enforced")
    left = " and ".join(sorted({"cpu", "memory"} - held))
    return note("limits", f"{left} limits of containers are not enforced: this user may not create cgroups")
