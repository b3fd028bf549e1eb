"""Cluster DNS: CoreDNS on the node's own address, where the kubelet sends every pod's questions."""

from __future__ import annotations

from tests.testbed.isolation.cell import NODE_ADDRESS, Cell
from tests.testbed.parts.control_plane import ControlPlane
from tests.testbed.parts.node import CLUSTER_DOMAIN
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

READY_PORT = 8181


def start_dns(cell: Cell, control_plane: ControlPlane) -> Part:
    """Returns when CoreDNS has seen the Services and answers."""
    kubeconfig = control_plane.identity("system:coredns", ("system:masters",), inner=True)
    corefile = cell.folder / "Corefile"
    # A short ttl: a test that replaces a pod must not wait for an old answer to grow stale.
    corefile.write_text(
        f"""{CLUSTER_DOMAIN}:53 in-addr.arpa:53 ip6.arpa:53 {{
    bind {NODE_ADDRESS}
    ready 0.0.0.0:{READY_PORT}
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 1
    }}
}}
.:53 {{
    bind {NODE_ADDRESS}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""
    )
    part = Part(cell, "coredns", [str(program("coredns")), "-conf", str(corefile)]).start()
    part.wait_until(lambda: part.answers(READY_PORT, "/ready"), "ready", 30)
    return part
