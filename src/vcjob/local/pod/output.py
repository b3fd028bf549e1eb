"""The output of one container instance: two pipes, and the log files that their bytes go to.

A container gets pipes and not the log files themselves, as on a cluster: `>/dev/stderr` opens file descriptor 2
again, and with a file there it would truncate the log. The pod's shim reads the pipes. It also sends
the reading ends to the supervisor, which keeps them open without reading: if the shim is killed, the supervisor saves
what the pipes still contain (`save_output`). Output is lost only if both are killed at the same moment, and then at
most what fits into the pipes (PIPE_SIZE for each stream).
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Callable, Sequence

from vcjob.local.logs.index import ContainerIndex
from vcjob.local.logs.writer import EMPTY, LogWriter
from vcjob.local.machine.loop import Loop

STREAMS = ("out", "err")
PIPE_SIZE = 256 * 1024
#: A container that prints line by line wakes its shim at most this often per second, after a burst of as many.
_READS_PER_SECOND = 200.0
_BURST = 20.0
#: What a process that survived its container may still write while its last output is saved.
_MOST_AT_END = 4 * PIPE_SIZE


def log_paths(folder: str, container: str, restart: int) -> list[str]:
    """The log files of one instance of a container: stdout, stderr."""
    return [os.path.join(folder, f"{container}.{restart}.{stream}") for stream in STREAMS]


class ContainerOutput:
    """The shim's side. `ends` are given to the container; call `close_ends` once it has them.

    Opening raises OSError where a log file cannot be created. A rank that prints faster than the disk takes it
    waits for its pipe; nothing is kept in memory.
    """

    def __init__(self, loop: Loop, paths: Sequence[str], on_failure: Callable[[str], None]) -> None:
        self._loop = loop
        self.ends: list[int] = []
        self.pipes: list[int] = []
        self._log = _ContainerLog([], [], on_failure)
        self._credit, self._refilled = _BURST, time.monotonic()
        self._paused = False
        try:
            for _ in paths:
                reading, writing = os.pipe()
                self.pipes.append(reading)
                self.ends.append(writing)
                os.set_blocking(reading, False)
                _enlarge(reading)
            self._log = _ContainerLog(self.pipes, paths, on_failure)
        except OSError:
            self.close()
            raise
        self._register()

    def close_ends(self) -> None:
        for end in self.ends:
            os.close(end)
        self.ends.clear()

    def read(self) -> None:
        """Move everything that has arrived by now into the logs."""
        for stream in self._log.move():
            self._loop.forget(self.pipes[stream])  # its end was reached

    def close(self) -> None:
        """Save the last output and close the pipes. Every process of the container must have ended.

        One that has escaped (started by a service outside the pod, say) may hold a pipe open, so this does not
        wait for the end of the pipes.
        """
        self.close_ends()
        for pipe in self.pipes:
            self._loop.forget(pipe)
        self._log.close()
        for pipe in self.pipes:
            os.close(pipe)
        self.pipes.clear()

    def drain(self, deadline: float) -> None:
        """Save output until all who can write have ended, or until `deadline` (monotonic)."""
        self.close_ends()
        _drain(self._log, self.pipes, deadline)
        self.close()

    def _register(self) -> None:
        for pipe in self.pipes:
            self._loop.on_readable(pipe, self._readable)

    def _readable(self) -> None:
        if self._paused or not self.pipes:
            return
        self.read()
        now = time.monotonic()
        self._credit = min(_BURST, self._credit + (now - self._refilled) * _READS_PER_SECOND) - 1.0
        self._refilled = now
        if self._credit < 0 and not self._log.busy:
            self._pause()

    def _pause(self) -> None:
        """Let output collect in the pipes for some milliseconds: reading it line by line costs more."""
        self._paused = True
        for pipe in self.pipes:
            self._loop.forget(pipe)
        self._loop.after(1.0 / _READS_PER_SECOND, self._resume)

    def _resume(self) -> None:
        self._paused = False
        for stream, pipe in enumerate(self.pipes):
            if stream not in self._log.ended:
                self._loop.on_readable(pipe, self._readable)


class _ContainerLog:
    """The writers of the two logs and their time index."""

    def __init__(self, pipes: Sequence[int], paths: Sequence[str], on_failure: Callable[[str], None]) -> None:
        self._writers: list[LogWriter] = []
        self._index = ContainerIndex(paths)
        self.ended: set[int] = set()
        #: The last read took so much that there is probably more.
        self.busy = False
        try:
            for pipe, path in zip(pipes, paths, strict=True):
                self._writers.append(LogWriter(pipe, path, on_failure))
        except OSError:
            self.close()
            raise

    def move(self) -> set[int]:
        """Move what has arrived. Returns the streams whose pipes have ended."""
        self.busy = False
        for stream, writer in enumerate(self._writers):
            if stream in self.ended:
                continue
            moved = writer.move()
            if moved == 0:
                self.ended.add(stream)
            elif moved != EMPTY:
                self._index.received(stream, writer.size, time.time())
                self.busy |= moved >= PIPE_SIZE // 4
        return self.ended

    @property
    def all_ended(self) -> bool:
        return len(self.ended) == len(self._writers)

    def close(self) -> None:
        for stream, writer in enumerate(self._writers):
            before = writer.size
            writer.drain(_MOST_AT_END)
            if writer.size != before:
                self._index.received(stream, writer.size, time.time())
            writer.close()
        self._writers.clear()
        self._index.close()


def save_output(pipes: Sequence[int], paths: Sequence[str], patience: float) -> None:
    """Move what a dead reader has left in the pipes into the logs, and close the pipes.

    Waits up to `patience` seconds for the last process that can still write to end.
    """
    try:
        log = _ContainerLog(pipes, paths, lambda _reason: None)
        _drain(log, pipes, time.monotonic() + patience)
        log.close()
    except OSError:
        pass  # the folder was removed, or the disk takes no new file: there is nowhere to save it
    for pipe in pipes:
        os.close(pipe)


def _drain(log: _ContainerLog, pipes: Sequence[int], deadline: float) -> None:
    while True:
        log.move()
        left = deadline - time.monotonic()
        if log.all_ended or left <= 0:
            return
        waiting = select.poll()
        for stream, pipe in enumerate(pipes):
            if stream not in log.ended:
                waiting.register(pipe, select.POLLIN)
        waiting.poll(left * 1000)


def _enlarge(pipe: int) -> None:
    """A larger pipe lets a fast writer go on while its reader sleeps. The kernel may refuse (a limit per user)."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        except OSError:
            pass
