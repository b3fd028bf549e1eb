"""`vcjob controller` as a part of a testbed: the real command in a process of its own, measured from outside."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part

HEALTH_PORT = 8080


def start_controller(cluster: Cluster, user: str, *flags: str) -> Part:
    """Without a webhook, as `user` for the audit log, with its Lease in kube-system unless a flag says otherwise."""
    return run_controller(cluster, cluster.identity(user, "system:masters", inner=True), *flags)


def run_controller(cluster: Cluster, kubeconfig: Path, *flags: str) -> Part:
    command = [
        str(Path(sys.executable).with_name("vcjob")),
        "controller",
        f"--kubeconfig={kubeconfig}",
        "--no-webhook",
        "--lease-namespace=kube-system",
        f"--health-port={HEALTH_PORT}",
        *flags,
    ]
    part = Part(cluster.cell, "vcjob-controller", command).start()
    part.wait_until(lambda: part.answers(HEALTH_PORT, "/readyz"), "ready", 60)
    return part


def peak_memory(part: Part) -> int:
    """The most bytes that were ever resident."""
    for line in Path(f"/proc/{part.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError("this kernel does not tell a process's peak memory")
