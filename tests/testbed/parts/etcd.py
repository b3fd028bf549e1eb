"""etcd: one member, no waiting for the disk (a test's data need not survive a power cut)."""

from __future__ import annotations

from tests.testbed.isolation.cell import Cell
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

CLIENT_URL = "http://127.0.0.1:2379"
HEALTH_PORT = 2381


def etcd(cell: Cell) -> Part:
    return Part(
        cell,
        "etcd",
        [
            str(program("etcd")),
            f"--data-dir={cell.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={CLIENT_URL}",
            f"--advertise-client-urls={CLIENT_URL}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            f"--listen-metrics-urls=http://0.0.0.0:{HEALTH_PORT}",
            "--quota-backend-bytes=4294967296",
            "--snapshot-count=100000",
            "--log-level=warn",
        ],
    )
