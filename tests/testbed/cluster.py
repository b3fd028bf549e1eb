"""Puts the parts together: a control plane at once; a node, DNS, fake nodes and Volcano when asked for."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.testbed.api import Api
from tests.testbed.isolation.cell import Cell
from tests.testbed.parts.control_plane import Audit, ControlPlane
from tests.testbed.parts.dns import start_dns
from tests.testbed.parts.fake_nodes import add_nodes, start_kwok
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from tests.testbed.parts.policies import start_policies
from tests.testbed.parts.volcano import Volcano


class Cluster:
    """A running testbed. ``start`` makes one, ``attach`` takes up one that ``python -m tests.testbed up`` left running."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.control_plane = ControlPlane(cell)

    @classmethod
    def start(cls, parent: Path | None = None, owned: bool = True, audit: Audit = True) -> Cluster:
        """``audit``: a line about every request, or about what a policy's rules say, or none."""
        cell = Cell.create(parent, owned)
        try:
            cluster = cls(cell)
            cluster.control_plane.start(audit)
        except BaseException:
            cell.destroy()
            raise
        return cluster

    @classmethod
    def attach(cls, folder: Path) -> Cluster:
        return cls(Cell.attach(folder))

    def stop(self) -> None:
        self.cell.destroy()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def folder(self) -> Path:
        return self.cell.folder

    @property
    def kubeconfig(self) -> Path:
        return self.control_plane.kubeconfig

    @property
    def server(self) -> str:
        return self.control_plane.server

    @property
    def host_address(self) -> str:
        """The machine as the API server and pods see it: a webhook that a test process runs is to listen here."""
        return self.cell.host_address

    @cached_property
    def api(self) -> Api:
        return Api(self.kubeconfig)

    def identity(self, user: str, *groups: str, inner: bool = False) -> Path:
        return self.control_plane.identity(user, groups, inner)

    def requests(self) -> Counter[tuple[str, str, str]]:
        return self.control_plane.requests()

    @cached_property
    def node(self) -> Node:
        return Node(self.cell, self.control_plane)

    def start_node(self, *images: str, pretended_cpus: int = 0) -> Node:
        """A real node, with the images (of tests/testbed/images/catalog.py) that the test needs in addition to the usual two."""
        if "kubelet" not in self.parts():
            self.node.start(pretended_cpus=pretended_cpus)
        for name in images:
            self.node.load_image(name)
        return self.node

    def start_dns(self) -> Part:
        return self.part("coredns") if "coredns" in self.parts() else start_dns(self.cell, self.control_plane)

    def start_policies(self) -> Part:
        """Makes the real node honour NetworkPolicies (kube-router)."""
        running = "kube-router" in self.parts() and self.part("kube-router").running
        return self.part("kube-router") if running else start_policies(self.cell, self.control_plane)

    def fakes(
        self, count: int, prefix: str = "fake", taint: bool = False, pods: int = 110, **capacity: str
    ) -> list[str]:
        """``count`` more pretended nodes, each for ``pods`` pods; more capacity (GPUs, say) by resource name."""
        if "kwok" not in self.parts():
            start_kwok(self.cell, self.control_plane)
        return add_nodes(self.api, count, prefix, taint, pods, **capacity)

    def start_volcano(self, mode: str = "full", *controller_flags: str) -> Volcano:
        """Volcano itself: ``scheduler`` alone, or ``full`` with its job controller and webhooks; ``.stop()`` removes it."""
        volcano = Volcano(self.cell, self.control_plane)
        volcano.start(mode, controller_flags)
        return volcano

    def prepare_volcano(self) -> None:
        """Volcano's kinds and queues without Volcano, for whoever brings a controller of his own."""
        Volcano(self.cell, self.control_plane).prepare()

    def part(self, name: str) -> Part:
        """Any part by name, to stop, pause, kill or restart it: etcd, kube-apiserver, kubelet, kwok, vc-scheduler, ..."""
        return Part(self.cell, name)

    def parts(self) -> dict[str, Part]:
        return {name: Part(self.cell, name) for name in self.cell.ask("list")["parts"]}
