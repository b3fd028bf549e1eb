"""Processes of a run, found by a mark in their environment, and the memory that they take."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

MARK = "VCJOB_BENCH"


def family(mark: str, roots: set[int]) -> set[int]:
    """Every process that carries the mark or is one of the roots, and every descendant of one."""
    parents: dict[int, int] = {}
    found = set(roots)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
            if f"{MARK}={mark}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def pss(pid: int) -> float:
    """MiB, pages that several processes share counted in parts."""
    return _field(f"/proc/{pid}/smaps_rollup", "Pss:")


def rss(pid: int) -> float:
    return _field(f"/proc/{pid}/smaps_rollup", "Rss:")


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _field(path: str, label: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1]) / 1024
    return 0.0
