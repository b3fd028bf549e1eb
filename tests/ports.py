"""Ports for tests that start a server: nothing else on the machine takes them between the choice and the start."""

from __future__ import annotations

import socket


def reserve_port() -> socket.socket:
    """A socket that is bound to a free port of this machine and does not listen.

    Until it is closed, a server can listen on that port if it sets SO_REUSEADDR, as nearly all do, and no other test gets it.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", 0))
    return held


def port_of(held: socket.socket) -> int:
    port: int = held.getsockname()[1]
    return port
