"""TCP sockets of a port on this machine, and which processes hold them.

Used for the diagnosis of ranks that do not meet. Reads /proc/net/tcp, /proc/net/tcp6 and /proc/PID/fd; where they
do not exist nothing is known, and a process that may not be read holds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from vcjob.local.machine.process import descendants

_ESTABLISHED, _LISTEN = "01", "0A"


class PortSockets(NamedTuple):
    """Inodes of sockets: those that listen on the port, and those at either end of a connection to it."""

    listening: frozenset[int]
    connected: frozenset[int]


def sockets_of(port: int) -> PortSockets | None:
    """The sockets of a port; None where /proc does not show them."""
    listening: set[int] = set()
    connected: set[int] = set()
    known = False
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        known = True
        for fields in map(str.split, lines):
            local, remote, state, inode = fields[1], fields[2], fields[3], int(fields[9])
            if state == _LISTEN and _port(local) == port:
                listening.add(inode)
            elif state == _ESTABLISHED and port in (_port(local), _port(remote)):
                connected.add(inode)
    return PortSockets(frozenset(listening), frozenset(connected)) if known else None


def any_has(pids: Iterable[int], inodes: frozenset[int]) -> bool:
    """Whether one of the processes, or one that they started, holds one of the sockets."""
    if not inodes:
        return False
    return any(not inodes.isdisjoint(_inodes(each)) for pid in pids for each in (pid, *descendants(pid)))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _inodes(pid: int) -> set[int]:
    found: set[int] = set()
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                target = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    except OSError:
        pass
    return found
