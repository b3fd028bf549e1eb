"""Network namespaces for one test, with their own host names and dropped packets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: An address behind a device that swallows every packet.
BLACK_HOLE = "10.99.0.2"

# The PATH is the image's; what is done before the command needs this machine's own.
_PREPARE = """
image=$PATH PATH=/usr/sbin:/usr/bin:/sbin:/bin
ip link set lo up
ip link add swallow type veth peer name nowhere
ip addr add 10.99.0.1/24 dev swallow
ip link set swallow arp off up
ip link set nowhere arp off up
mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf
eval "$3"
shift 3
PATH=$image exec "$@"
"""


def inside(enter: Sequence[str], folder: Path, also: str = ":") -> tuple[list[str], Path]:
    """The prefix of a command that runs in the namespace, and the hosts file that it will see.

    `also` is run in the namespace before the command. Names that the file lacks are looked up at a port
    where nobody listens, so they fail at once.
    """
    folder.mkdir(exist_ok=True)
    hosts, resolv = folder / "hosts", folder / "resolv.conf"
    hosts.write_text("127.0.0.1 localhost\n")
    resolv.write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    return [*enter, "/bin/sh", "-ec", _PREPARE, "sh", str(hosts), str(resolv), also], hosts
