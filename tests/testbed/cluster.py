"""Puts the parts together: a control plane at once; a node, DNS, fake nodes and Volcano when asked for."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

from .api import Api
from .control_plane import ControlPlane
from .isolation import Cell
from .part import Part


class Cluster:
    """A running testbed. ``start`` makes one, ``attach`` takes up one that ``python -m tests.testbed up`` left running."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.control_plane = ControlPlane(cell)

    @classmethod
    def start(cls, parent: Path | None = None, owned: bool = True, audit: bool = True) -> Cluster:
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

    def part(self, name: str) -> Part:
        """Any part by name, to stop, pause, kill or restart it: etcd, kube-apiserver, kubelet, kwok, vc-scheduler, ..."""
        return Part(self.cell, name)

    def parts(self) -> dict[str, Part]:
        return {name: Part(self.cell, name) for name in self.cell.ask("list")["parts"]}
