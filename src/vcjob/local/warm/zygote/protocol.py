"""The protocol between a client and a zygote: frames of JSON, the first one of a rank with descriptors.

One connection is one rank. The client sends a request; the rank parent answers `{"pid": N}` or `{"refused": WHY}`,
and later `{"exit": CODE}`. When the client closes the connection, the rank is killed.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

#: Changes with the fields of a request: a kept-warm server with another version is replaced.
VERSION = 1
_LENGTH = struct.Struct("!Q")
LONGEST = 64 << 20


def encode(message: dict[str, Any]) -> bytes:
    data = json.dumps(message).encode()
    return _LENGTH.pack(len(data)) + data


def send(connection: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    data = encode(message)
    if descriptors:
        # The descriptors travel with the first bytes; what one call does not take, the next ones do.
        sent = socket.send_fds(connection, [data], list(descriptors))
        data = data[sent:]
    connection.sendall(data)


def receive(connection: socket.socket, most: int = 0) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message and up to `most` descriptors; None at the end of the connection."""
    if most:
        head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, most)
    else:
        head, descriptors = connection.recv(_LENGTH.size), []
    head += _exactly(connection, _LENGTH.size - len(head)) if head else b""
    if len(head) < _LENGTH.size:
        return None, descriptors
    (length,) = _LENGTH.unpack(head)
    if length > LONGEST:
        raise OSError(f"a message of {length} bytes")
    data = _exactly(connection, length)
    if len(data) < length:
        return None, descriptors
    message: dict[str, Any] = json.loads(data)
    return message, descriptors


def exchange(
    connection: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()
) -> dict[str, Any] | None:
    """Send a message and return the answer; None if the other side has ended."""
    try:
        send(connection, message, descriptors)
    except OSError:
        pass  # it may have refused, and closed the connection, before it had read everything
    try:
        return receive(connection)[0]
    except (OSError, ValueError):
        return None


def exit_code(received: bytes) -> int | None:
    """The code in the last message of a rank, once all of it is there."""
    if len(received) < _LENGTH.size or len(received) < _LENGTH.size + _LENGTH.unpack_from(received)[0]:
        return None
    return int(json.loads(received[_LENGTH.size :])["exit"])


def _exactly(connection: socket.socket, length: int) -> bytes:
    parts = []
    while length > 0:
        part = connection.recv(min(length, 1 << 20))
        if not part:
            break
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end (Linux: as of the moment it connected)."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    return int(uid)
