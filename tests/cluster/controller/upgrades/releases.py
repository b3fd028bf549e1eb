"""Earlier releases of the controller, taken from the git history and run with the packages of this virtual environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.testbed.fixtures import need

ROOT = Path(__file__).parents[4]
#: The last commit before the modules were moved into sub-packages; it knows no editions and no digest of the spec.
FLAT_LAYOUT = "d885ef50"
#: Refuses to run the code of any release but the one in the first argument.
_MAIN = """
import sys, vcjob
folder = sys.argv.pop(1)
assert vcjob.__file__.startswith(folder), f"{vcjob.__file__} is not in {folder}"
from vcjob.cli.main import main
sys.exit(main())
"""


class Release(NamedTuple):
    """The source of one release; `start` runs its controller for one namespace."""

    name: str
    sources: Path

    def start(self, kubeconfig: Path, namespace: str, log: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", _MAIN, str(self.sources), "controller",
                   f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", f"--lease-namespace={namespace}",
                   "--no-webhook", "--gang=none", "--host=127.0.0.1", "--health-port=0", "--metrics-port=0"]  # fmt: skip
        with log.open("wb") as output:
            return subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, "PYTHONPATH": str(self.sources)}
            )


def current() -> Release:
    return Release("this release", ROOT / "src")


def earlier(revision: str, folder: Path) -> Release:
    """The release of a commit, unpacked below `folder`; where the history lacks it, the test is skipped, or fails if
    nothing may be skipped."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "--verify", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if found.returncode:
        need(f"there is no git history with {revision}: {found.stderr.strip()}")
    sources = folder / found.stdout.strip()
    sources.mkdir()
    packed = subprocess.run(
        ["git", "archive", revision, "src"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    subprocess.run(["tar", "-x", "-C", str(sources)], input=packed, check=True)
    return Release(found.stdout.strip(), sources / "src")
