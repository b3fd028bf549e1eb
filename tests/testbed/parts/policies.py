"""A NetworkPolicy enforcer: kube-router, with nothing on but its firewall."""

from __future__ import annotations

from tests.testbed.images import debian
from tests.testbed.isolation.cell import Cell
from tests.testbed.parts.control_plane import SERVICE_NETWORK, ControlPlane
from tests.testbed.parts.node import NAME
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

HEALTH_PORT = 20244


def start_policies(cell: Cell, control_plane: ControlPlane) -> Part:
    """Returns when the firewall stands. Rules live in the testbed's own network and go with it."""
    debian.ensure("iptables", "ipset")
    kubeconfig = control_plane.identity("system:kube-router", ("system:masters",), inner=True)
    part = Part(
        cell,
        "kube-router",
        [
            str(program("kube-router")),
            f"--kubeconfig={kubeconfig}",
            f"--hostname-override={NAME}",
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            f"--health-port={HEALTH_PORT}",
            "--iptables-sync-period=2s",
            "--v=1",
        ],
    ).start()
    part.wait_until(lambda: part.answers(HEALTH_PORT, "/healthz"), "healthy", 60)
    return part
