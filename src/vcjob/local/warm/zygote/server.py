"""The zygote's main loop: import, report that it is ready, fork a rank parent for every client, end.

`main.py` calls `serve`, which returns only in a rank. The parts of the protocol are in `protocol`, what happens after
the fork in `rank_parent`. It ends when its owner closes the control socket and its last rank has ended.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from . import protocol, rank_parent
from .imported_modules import ImportedModules
from .program import Rank

_PATIENCE = 10.0  # seconds that a client has to say what it wants


class Config:
    """The zygote's configuration: JSON in its only argument."""

    def __init__(self, text: str) -> None:
        given: dict[str, Any] = json.loads(text)
        #: The socket over which the owner sends connections, and the zygote reports that it is ready.
        self.control = socket.socket(fileno=int(given["control"]))
        #: The listening socket of a kept-warm server.
        self.listening = socket.socket(fileno=int(given["listening"])) if "listening" in given else None
        self.imports: list[str] = given["imports"]
        self.folder: str = given["folder"]
        self.idle: float | None = given.get("idle")


def serve(text: str, baseline: frozenset[str]) -> Rank:
    """Never returns in the zygote itself; returns in each rank what it is to run."""
    if os.getsid(0) != os.getpid():  # a Python that was built for older systems cannot start it in a session
        os.setsid()
    config = Config(text)
    _close_others({config.control.fileno(), *([config.listening.fileno()] if config.listening else [])})
    os.chdir(config.folder)
    imported = ImportedModules(baseline)
    started = time.monotonic()
    gc.disable()  # nothing that an import makes is garbage; looking for it costs a tenth of the time
    imported.import_all(config.imports)
    _settle()
    imported.remember_files()
    unfit = imported.unfit()
    ready = {
        "unfit": unfit,
        "seconds": time.monotonic() - started,
        "modules": [name for name in config.imports if name in sys.modules],
    }
    try:
        protocol.send(config.control, ready)
    except OSError:
        os._exit(1)
    rank_parent.own_orphans()
    return _Zygote(config, imported).run()


def _close_others(ours: set[int]) -> None:
    """Close file descriptors that the shell left open, so that the ranks do not inherit them."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in ours:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _settle() -> None:
    """Leave nothing running, nothing written twice, and as little as possible to be copied.

    OpenBLAS starts threads when it is imported, ends them before every fork and starts them again when it computes:
    one fork for nothing leaves it without threads, here and in the ranks. What the imports left as garbage is
    kept: looking for it takes longer than a rank needs to start.
    """
    gc.freeze()
    gc.enable()
    if len(os.listdir("/proc/self/task")) > 1:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()


class _Zygote:
    def __init__(self, config: Config, imported: ImportedModules) -> None:
        self._config = config
        self._imported = imported
        self._rank_parents: set[int] = set()
        self._wake = rank_parent.wake_on_signals()
        self._open = {config.control.fileno(), *([config.listening.fileno()] if config.listening else [])}
        self._ending = False
        self._busy_at = time.monotonic()

    def run(self) -> Rank:
        while not (self._ending and not self._rank_parents):
            ready = self._wait()
            if self._wake[0] in ready:
                self._on_signal()
            for source in (self._config.control, self._config.listening):
                if source is not None and source.fileno() in ready:
                    rank = self._serve_one(source)
                    if rank is not None:
                        return rank
        os._exit(0)

    def _wait(self) -> list[int]:
        waiting = select.poll()
        for descriptor in (self._wake[0], *self._open):
            waiting.register(descriptor, select.POLLIN)
        left = None
        if self._config.idle is not None and not self._rank_parents:
            left = max(0.0, self._busy_at + self._config.idle - time.monotonic())
        ready = [descriptor for descriptor, _ in waiting.poll(None if left is None else left * 1000 + 1)]
        if not ready and left is not None:
            self._end()
        return ready

    def _serve_one(self, source: socket.socket) -> Rank | None:
        connection = self._connection(source)
        if connection is None:
            return None
        refused = self._imported.unfit()
        stale = self._imported.stale()
        if stale:
            refused = f"{stale} has changed since the imports were done"
            if self._config.listening:
                self._end()  # it stays stale; the next run starts a new server
        if refused:
            with contextlib.suppress(OSError):
                protocol.send(connection, {"refused": refused})
            connection.close()
            return None
        self._busy_at = time.monotonic()
        zygote = os.getpid()
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD, signal.SIGTERM))
        pid = os.fork()
        if pid:
            self._rank_parents.add(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGCHLD, signal.SIGTERM))
            connection.close()
            return None
        signal.set_wakeup_fd(-1)
        for descriptor in self._wake:
            os.close(descriptor)
        self._config.control.close()
        if self._config.listening:
            self._config.listening.close()
        connection.settimeout(_PATIENCE)
        return rank_parent.supervise(connection, self._imported, zygote)

    def _connection(self, source: socket.socket) -> socket.socket | None:
        if source is self._config.listening:
            try:
                connection, _ = source.accept()
            except OSError:
                return None
            if protocol.peer_uid(connection) != os.getuid():
                connection.close()
                return None
            return connection
        try:
            data, descriptors, _, _ = socket.recv_fds(source, 1, 1)
        except OSError:
            data, descriptors = b"", []
        if descriptors:
            return socket.socket(fileno=descriptors[0])
        if not data:
            self._open.discard(source.fileno())
            if not self._config.listening:
                self._end()
        return None

    def _on_signal(self) -> None:
        if signal.SIGTERM in os.read(self._wake[0], 512):
            self._end()
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._rank_parents.discard(pid)
            self._busy_at = time.monotonic()
        for orphan in rank_parent.children():  # its rank parent was killed, so nothing else would end it
            if orphan not in self._rank_parents:
                with contextlib.suppress(OSError):
                    os.kill(orphan, signal.SIGKILL)

    def _end(self) -> None:
        """Accept no more clients; the ranks of the current ones run to their end."""
        self._ending = True
        self._open.clear()
        if self._config.listening:
            self._config.listening.close()
