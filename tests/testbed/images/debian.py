"""containerd, runc, the CNI plugins, nftables and static shells: from Debian, installed when they are missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

from tests.testbed.paths import cache_folder
from tests.testbed.progress import Progress

CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))

# Package -> a file that shows that it is there.
PACKAGES: dict[str, tuple[str, ...]] = {
    "containerd": ("/usr/bin/containerd", "/usr/local/bin/containerd"),
    "runc": ("/usr/sbin/runc", "/usr/bin/runc", "/usr/local/sbin/runc"),
    "containernetworking-plugins": tuple(str(folder / "bridge") for folder in CNI_FOLDERS),
    "nftables": ("/usr/sbin/nft",),
    "busybox-static": ("/bin/busybox",),
    "bash-static": ("/bin/bash-static",),
}
# Needed by single parts only, installed when those start.
MORE_PACKAGES: dict[str, tuple[str, ...]] = {
    "iptables": ("/usr/sbin/iptables",),
    "ipset": ("/usr/sbin/ipset",),
}


def absent(*more: str) -> list[str]:
    wanted = PACKAGES | {name: MORE_PACKAGES[name] for name in more}
    return [package for package, files in wanted.items() if not any(Path(file).exists() for file in files)]


def problem() -> str | None:
    """Why the packages cannot be had, or None when they are there or apt can fetch them."""
    if absent() and not shutil.which("apt-get"):
        return f"a real node needs {', '.join(absent())}, and there is no apt-get to install them"
    return None


def ensure(*more: str) -> None:
    """Installs what is missing. Services are kept from starting: containerd is run by the testbed alone."""
    if not absent(*more):
        return
    with (cache_folder() / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        packages = absent(*more)
        if packages:
            with Progress(f"installing {', '.join(packages)} from Debian"):
                apt("update", "-qq")
                apt("install", "-y", "-qq", "--no-install-recommends", *packages)


def apt(*arguments: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    done = subprocess.run(["apt-get", *arguments], env=environment, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"apt-get {' '.join(arguments)}: {done.stderr.strip()[-1500:]}")
    return done.stdout


def cni_folder() -> Path:
    return next(folder for folder in CNI_FOLDERS if (folder / "bridge").exists())
