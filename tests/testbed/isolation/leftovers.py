"""Finds and removes what a testbed may leave: processes, mounts, links, control groups, folders.

The kernel does nearly all of it, because a testbed's processes, mounts and network live in namespaces that end with their first
process. What can stay after a kill -9 of the keeper itself is a control group and a folder; the next start sweeps those.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from tests.testbed.isolation import keeper

SYSTEM_FOLDERS = (
    "/var/lib/kubelet",
    "/var/log/pods",
    "/var/log/containers",
    "/var/lib/cni",
    "/run/containerd",
    "/etc/cni/net.d",
    "/usr/libexec/kubernetes",
)


def is_held(folder: Path) -> bool:
    """Whether a keeper is alive: its lock dies with it, whatever kills it."""
    try:
        with (folder / keeper.LOCK_FILE).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True


def sweep(parent: Path) -> None:
    """Clears every testbed under ``parent`` whose keeper is dead."""
    if not parent.exists():
        return
    for folder in parent.iterdir():
        lock = folder / keeper.LOCK_FILE
        # A folder without a lock may be one that is being made at this moment.
        if folder.is_dir() and lock.exists() and lock.read_text() and not is_held(folder):
            clear(folder)


def clear(folder: Path) -> None:
    for pid in _processes_naming(folder):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    # A process that is not known to belong to the testbed may keep its network namespace, and with that the link.
    link = f"{keeper.LINK_PREFIX}{folder.name}"
    subprocess.run(["ip", "link", "delete", link], capture_output=True, check=False)
    keeper.remove_cgroups(folder.name)
    keeper.remove_folder(folder)
    until = time.monotonic() + 10
    while find(folder.name) and time.monotonic() < until:
        time.sleep(0.02)  # the kernel takes a network namespace apart in the background


def find(identity: str) -> list[str]:
    """What is still there of a testbed, each thing in words; empty when all is gone."""
    found = [
        f"process {pid} ({line[:100]})"
        for pid, line in _command_lines().items()
        if f"/{identity}/" in f"{line}/"
    ]
    for line in Path("/proc/mounts").read_text().splitlines():
        if f"/{identity}" in line:
            found.append(f"mount {line}")
    found += [f"control group {folder}" for folder in keeper.cgroup_folders(identity) if folder.exists()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    if f"{keeper.LINK_PREFIX}{identity}" in links:
        found.append(f"network link {keeper.LINK_PREFIX}{identity}")
    return found


def machine_state() -> dict[str, set[str]]:
    """A picture of what testbeds could have changed on the machine, to compare before and after.

    What carries the name of a testbed is left out: ``find`` looks for that, and others may be running at the same time.
    """

    def said(*argv: str) -> set[str]:
        done = subprocess.run(argv, capture_output=True, text=True)
        return {line for line in done.stdout.splitlines() if keeper.LINK_PREFIX not in line}

    settings = (
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "net/ipv4/ip_forward",
    )
    mounts = Path("/proc/mounts").read_text().splitlines()
    return {
        "mounts": {
            line
            for line in mounts
            if any(word in line for word in ("kubelet", "containerd", "/cni-", "testbed "))
        },
        "links": {line.split(":")[1].strip() for line in said("ip", "-o", "link")},
        "routes": said("ip", "route"),
        "packet rules": said("nft", "list", "ruleset") if shutil.which("nft") else set(),
        "kernel settings": {f"{name}={Path('/proc/sys', name).read_text().strip()}" for name in settings},
        "system folders": {name for name in SYSTEM_FOLDERS if Path(name).exists()},
    }


def processes_in(namespace: str) -> dict[int, str]:
    """The processes of a pid namespace (as /proc/PID/ns/pid names it)."""
    found = {}
    for pid, line in _command_lines().items():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == namespace:
                found[pid] = line
        except OSError:
            continue
    return found


def _processes_naming(folder: Path) -> list[int]:
    own = os.getpid()
    return [
        pid
        for pid, line in _command_lines().items()
        if pid != own and str(folder) in line and "pid1.py" in line
    ]


def _command_lines() -> dict[int, str]:
    lines = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line:
                lines[int(entry.name)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
    return lines
