"""Following a run as it happens: new log lines and every change of its state, at little cost.

Files are looked at a few times a second and read in large pieces; lines are never touched one by one. A
change of the status wakes the follower at once, by inotify where the machine has it.
"""

from __future__ import annotations

import ctypes
import os
import select
import time

from vcjob.lifecycle.status import Status
from vcjob.local.logs.reader import LogFile, find_files, line_start, tail_offset
from vcjob.local.logs.retention import read_on
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState

_PIECE = 1 << 20
_BUSY, _IDLE, _ENDING = 0.03, 0.12, 0.01


class Tail:
    """The growing end of one log file."""

    def __init__(self, file: LogFile, start: int = 0) -> None:
        self.file = file
        self._descriptor = os.open(file.path, os.O_RDONLY)
        self._offset = start
        self._rest = b""

    def read(self, *, last: bool = False) -> Chunk | None:
        """The whole lines that are new; with `last` also an unfinished one."""
        data, self._offset = read_on(self._descriptor, self._offset, _PIECE)
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if newline:
            return Chunk(self.file, whole + newline)
        if last and self._rest and len(data) < _PIECE:
            rest, self._rest = self._rest, b""
            return Chunk(self.file, rest + b"\n")
        return None

    def skip_to_tail(self, lines: int) -> None:
        self._offset = tail_offset(self._descriptor, os.fstat(self._descriptor).st_size, lines)

    def skip_to(self, offset: int) -> None:
        self._offset = line_start(self._descriptor, offset)

    def close(self) -> None:
        os.close(self._descriptor)


class Follower:
    """Call `look` again and again, and `rest` in between, until `ended`."""

    def __init__(self, run: RunDir, chosen: LogFilter = LogFilter(), *, logs: bool = True) -> None:  # noqa: B008 - a tuple, which nobody can change
        self.run = run
        self.status = Status()
        self.pods: list[PodState] = []
        #: Nothing runs any more and nobody looks after it: what has been read is all there is.
        self.ended = False
        self._chosen = chosen
        self._logs = logs
        self._tails: dict[str, Tail] = {}
        self._seen: dict[str, tuple[int, int] | None] = {}
        self._watch = _Watch(run.folder)
        self._grew = False

    def attach(self) -> None:
        """Find the files that are there, without reading them yet."""
        if self._changed("pods.json"):
            self.pods = self.run.pods()
            self._attach()

    def look(self) -> list[Chunk]:
        """Take in what is new; returns new log lines. The last call (after which `ended`) returns the rest."""
        supervised = self.run.supervised()  # before the files: what it wrote last is then seen
        if self._changed("status.json"):
            self.status = self.run.status() or Status()
        self.attach()
        chunks = self._read(last=not supervised)
        self._grew = bool(chunks)
        self.ended = not supervised and not chunks
        return chunks

    def stuck(self) -> bool:
        """Can the supervisor not write what it knows?"""
        return self._changed("trouble") and bool(self.run.trouble())

    def rest(self, longest: float = _IDLE) -> None:
        """Wait a little, less where something is going on."""
        if not self.ended:
            self._watch.wait(min(longest, self.pause))

    @property
    def pause(self) -> float:
        if self.status.over:
            return _ENDING  # its supervisor is about to go, which no file tells
        return _BUSY if self._grew else _IDLE

    def attached(self) -> list[Tail]:
        return list(self._tails.values())

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._watch.close()

    def _changed(self, name: str) -> bool:
        try:
            stat = os.stat(self.run.path(name))
            identity: tuple[int, int] | None = (stat.st_ino, stat.st_mtime_ns)
        except FileNotFoundError:
            identity = None
        changed = self._seen.get(name) != identity
        self._seen[name] = identity
        return changed

    def _attach(self) -> None:
        if not self._logs:
            return
        for file in find_files(self.run, self.pods, self._chosen):
            if file.path not in self._tails:
                self._tails[file.path] = Tail(file)

    def _read(self, *, last: bool) -> list[Chunk]:
        found = [tail.read(last=last) for tail in self._tails.values()]
        return [chunk for chunk in found if chunk is not None]


class _Watch:
    """Wakes when something in a folder is written anew; a plain pause where there is no inotify."""

    _MOVED_TO = 0x80

    def __init__(self, folder: str) -> None:
        self._descriptor = -1
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "inotify_init1"):
            self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if (
                self._descriptor >= 0
                and libc.inotify_add_watch(self._descriptor, folder.encode(), self._MOVED_TO) < 0
            ):
                self.close()

    def wait(self, seconds: float) -> None:
        if self._descriptor < 0:
            time.sleep(seconds)
            return
        if select.select([self._descriptor], [], [], seconds)[0]:
            try:
                os.read(self._descriptor, 65536)
            except BlockingIOError:
                pass

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
