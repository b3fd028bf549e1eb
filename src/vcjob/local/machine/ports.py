"""The port of a job on a machine that many jobs share.

The port in the Job is used if it is free; otherwise another one, below the range that the kernel uses for outgoing
connections. It is claimed machine-wide until the job ends, so that two jobs never get the same port, not even
before the first of them listens.
"""

from __future__ import annotations

import random
import socket

from vcjob.errors import BackendError
from vcjob.local.machine.claims import Claim, claim

_SPAN = 12_000
_LOWEST = 1024


def take_port(wanted: int) -> tuple[int, Claim]:
    """A free port, the wanted one if possible, and the claim on it. Raises BackendError if there is none."""
    held = _take(wanted)
    if held is not None:
        return wanted, held
    first, last = replacement_range()
    start = random.randrange(first, last + 1)  # noqa: S311 - spreads jobs, guards nothing
    for step in range(last - first + 1):
        port = first + (start - first + step) % (last - first + 1)
        held = _take(port)
        if held is not None:
            return port, held
    raise BackendError(f"no free port between {first} and {last} on this machine")


def replacement_range() -> tuple[int, int]:
    """The range of replacement ports: below the ephemeral ports."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            ephemeral = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        ephemeral = 32768
    last = ephemeral - 1 if ephemeral - 1 > _LOWEST else 65535
    return max(_LOWEST, last - _SPAN), last


def _take(port: int) -> Claim | None:
    held = claim(f"port/{port}")
    if held is not None and not is_free(port):
        held.release()
        return None
    return held


def is_free(port: int) -> bool:
    """Whether a server could listen on it now, on all addresses."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 - tried, not served
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            continue  # a machine without IPv6
        try:
            # As servers do: connections of an ended job in TIME_WAIT are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if family == socket.AF_INET6 and isinstance(error, OSError) and error.errno == 99:
                continue  # IPv6 is switched off
            return False
        finally:
            probe.close()
    return True
