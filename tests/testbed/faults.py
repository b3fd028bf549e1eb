"""What may go wrong around a cluster, on demand. Single parts are stopped, paused and killed by ``cluster.part(name)``; an
API server that misbehaves is ``proxy.ApiProxy``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.testbed.cluster import Cluster
from tests.testbed.isolation.keeper import cgroup_folders
from tests.testbed.parts import containers
from tests.testbed.parts.node import NAME

TABLE = "testbed-faults"


@contextmanager
def unreachable(cluster: Cluster) -> Iterator[None]:
    """Pulls the cable between this machine and the cluster: packets vanish, no connection is refused."""
    cluster.cell.run("ip", "link", "set", "host0", "down")
    try:
        yield
    finally:
        cluster.cell.run("ip", "link", "set", "host0", "up")


@contextmanager
def pods_cut_off(cluster: Cluster, one: str, other: str) -> Iterator[None]:
    """Packets between two pods' addresses vanish, both ways."""
    rules = f"""table bridge {TABLE} {{
    chain forward {{
        type filter hook forward priority 0;
        ip saddr {one} ip daddr {other} drop
        ip saddr {other} ip daddr {one} drop
    }}
}}"""
    cluster.cell.run("nft", rules)
    try:
        yield
    finally:
        cluster.cell.run("nft", "delete", "table", "bridge", TABLE)


def lose_node(cluster: Cluster) -> None:
    """As when the power fails: the kubelet, the runtime and every container are gone at once, and nobody says goodbye."""
    for name in ("kubelet", "containerd"):
        cluster.part(name).kill()
    for pid, line in cluster.cell.processes().items():
        if "containerd-shim" in line:
            os.kill(pid, signal.SIGKILL)
    for folder in cgroup_folders(cluster.cell.identity):
        for procs in folder.rglob("cgroup.procs"):
            _kill_all(procs)


def _kill_all(procs: Path) -> None:
    try:
        pids = procs.read_text().split()
    except OSError:
        return
    for pid in pids:
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            pass


def bring_node_back(cluster: Cluster) -> None:
    """The machine boots again: the same disk, no container; returns when the node is Ready."""
    forget = r"""awk '$2 ~ "^/(run/containerd|run/netns|var/lib/kubelet)/" {print $2}' /proc/mounts | sort -r | xargs -r umount -l"""
    cluster.cell.run("sh", "-c", f"{forget}; rm -rf /run/containerd /run/netns/*")
    runtime = cluster.part("containerd").start()
    containers.wait_until_ready(cluster.cell, runtime)
    cluster.part("kubelet").start()
    cluster.api.wait(f"/api/v1/nodes/{NAME}", lambda seen: _condition(seen) == "True", 60, "Ready")


def node_is_lost(cluster: Cluster, patience: float = 60) -> None:
    """Waits until the control plane has noticed."""
    cluster.api.wait(f"/api/v1/nodes/{NAME}", lambda seen: _condition(seen) == "Unknown", patience, "lost")


def _condition(node: object) -> str:
    assert isinstance(node, dict)
    return next(
        (c["status"] for c in node["status"].get("conditions", ()) if c["type"] == "Ready"), "Missing"
    )


@contextmanager
def full_disk(cluster: Cluster, spare: int = 0) -> Iterator[None]:
    """etcd's disk has only ``spare`` bytes left, so the API server can soon write nothing; afterwards there is room again.

    etcd moves to a small memory disk for this, and stays there.
    """
    store = cluster.part("etcd")
    folder = cluster.folder / "etcd"
    store.stop()
    cluster.cell.run("mv", str(folder), f"{folder}.before")
    folder.mkdir()
    used = sum(path.stat().st_blocks * 512 for path in Path(f"{folder}.before").rglob("*") if path.is_file())
    # etcd sets space aside for its next log file as it starts; that much is needed to come up at all.
    size = used + 72 * 2**20 + spare
    cluster.cell.run("mount", "-t", "tmpfs", "-o", f"size={size}", "small-disk", str(folder))
    cluster.cell.run("cp", "-a", f"{folder}.before/member", str(folder))
    store.start()
    _wait_for_api(cluster)
    free = os.statvfs(f"/proc/{cluster.cell.pid1}/root{folder}")
    ballast = max(0, free.f_bavail * free.f_frsize - spare)
    cluster.cell.run("sh", "-c", f"head -c {ballast} /dev/zero > {folder}/ballast", check=False)
    try:
        yield
    finally:
        cluster.cell.run("rm", "-f", f"{folder}/ballast")
        cluster.cell.run("mount", "-o", "remount,size=4G", str(folder))
        store.restart()
        _wait_for_api(cluster)


def _wait_for_api(cluster: Cluster) -> None:
    cluster.control_plane.wait_until_ready(cluster.part("kube-apiserver"))
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if cluster.part("etcd").answers(2381, "/health"):
            return
        time.sleep(0.05)
