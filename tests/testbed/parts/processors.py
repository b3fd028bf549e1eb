"""Lets the kubelet of a small machine believe in more processors, for tests that count on a bigger node.

A kubelet takes their number from /sys/devices/system/node; inside the testbed's own mounts a description of our making lies
there, in which several memory nodes have the same processors: those are counted once per memory node, and every number of a
processor is one that there is. Only what may be asked for grows by that; pods that do work share the real ones.
"""

from __future__ import annotations

import os

from tests.testbed.isolation.cell import Cell

NODES = "/sys/devices/system/node"


def pretend(cell: Cell, least: int) -> None:
    """At least so many of them. To be called before the kubelet starts."""
    described = cell.folder / "processors"
    real = sorted(os.sched_getaffinity(0))
    for node in range(-(-least // len(real))):
        for processor in real:
            topology = described / f"node{node}" / f"cpu{processor}" / "topology"
            topology.mkdir(parents=True)
            (topology / "core_id").write_text(f"{processor}\n")
            (topology / "physical_package_id").write_text(f"{node}\n")
        (described / f"node{node}" / "hugepages").mkdir()
    cell.run("mount", "--bind", str(described), NODES)
