"""Exclusive claims on resources of this machine: a port, a GPU.

A claim is a name that one process holds at a time, for all users and homes; it ends with its holder, however that
ends. On Linux it is an abstract socket name, which needs no file and has the same scope as a port (the network
namespace); elsewhere it is a locked file.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys


class Claim:
    """Held until `release`, or until every process that inherited it has ended.

    It stands for something of which the machine has one: a port, a GPU, a host name. The kernel ends it with its last
    process, so a crash leaves none behind.
    """

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def claim(name: str) -> Claim | None:
    """The claim on `name`, or None while another process holds it."""
    return _claim_socket(name) if sys.platform == "linux" else _claim_file(name)


def _claim_socket(name: str) -> Claim | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0vcjob/{name}")
    except OSError as error:
        holder.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise
    return Claim(holder.detach())


def _claim_file(name: str) -> Claim | None:
    folder = "/tmp/vcjob-claims"  # noqa: S108 - shared by all users of the machine; its files stay empty
    try:
        os.mkdir(folder)
        os.chmod(folder, 0o1777)  # noqa: S103 - as /tmp itself
    except FileExistsError:
        pass
    path = os.path.join(folder, name.replace("/", "-"))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return Claim(descriptor)
