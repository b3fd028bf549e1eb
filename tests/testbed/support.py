"""Says what of the testbed can run on this machine, and if not, why, in one sentence."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.testbed.images import debian

REQUIRE = "VCJOB_TESTBED"


def is_required() -> bool:
    """With VCJOB_TESTBED=require a part that cannot run is a failure, not a skip."""
    return os.environ.get(REQUIRE) == "require"


@cache
def control_plane_problem() -> str | None:
    if platform.system() != "Linux":
        return f"the testbed needs Linux namespaces; this is {platform.system()}"
    if os.geteuid() != 0:
        return "the testbed needs root, for namespaces and virtual network cables"
    for tool in ("unshare", "nsenter", "setpriv", "ip", "mount"):
        if not shutil.which(tool):
            return f"the testbed needs the program {tool} (util-linux, iproute2)"
    tried = subprocess.run(
        [
            "unshare",
            "--net",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "ip",
            "link",
            "add",
            "probe0",
            "type",
            "bridge",
        ],
        capture_output=True,
        text=True,
    )
    if tried.returncode:
        return f"no namespace with a network bridge can be made here: {tried.stderr.strip()}"
    return None


@cache
def node_problem() -> str | None:
    problem = control_plane_problem()
    if problem:
        return problem
    root = Path("/sys/fs/cgroup")
    version_2 = (root / "cgroup.controllers").exists()
    if not version_2 and not (root / "memory" / "cgroup.procs").exists():
        return "a real node needs control groups, and none are mounted at /sys/fs/cgroup"
    here = root if version_2 else root / "memory"
    if not os.access(here, os.W_OK):
        return "a real node needs control groups that can be written"
    return debian.problem()
