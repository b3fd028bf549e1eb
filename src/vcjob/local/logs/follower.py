"""Following a run as it happens: new log lines and every change of its state, at little cost.

Files are checked a few times a second and read in large pieces; lines are never handled one by one. A change of the
status wakes the follower at once, by inotify where the machine has it. No file stays open between two calls, and a
log that has ended is forgotten, so that a job can be followed through any number of restarts.
"""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import suppress

from vcjob.errors import RunDamaged
from vcjob.lifecycle.status import Status
from vcjob.local.logs.merger import Cursor, LogMerger
from vcjob.local.logs.reader import find_files, first_offset, last_lines_of_containers
from vcjob.local.machine import files
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState

#: Bytes of new lines that one call returns at most (and a line more).
_BUDGET = 4 << 20
_BUSY, _IDLE, _ENDING = 0.03, 0.12, 0.01


class Follower:
    """Call `poll` repeatedly, and `wait` in between, until `ended`.

    Of the logs that exist at first only lines newer than `since` and the last `tail` of each container are returned.
    """

    def __init__(
        self,
        run: RunDir,
        chosen: LogFilter = LogFilter(),  # noqa: B008 - a tuple, which nobody can change
        *,
        logs: bool = True,
        since: float | None = None,
        tail: int | None = None,
    ) -> None:
        self.run = run
        self.status = Status()
        self.pods: list[PodState] = []
        #: The supervisor has ended and everything was read.
        self.ended = False
        self._chosen = chosen
        self._logs = logs
        self._since, self._tail = since, tail
        self._merger = LogMerger()
        self._known: set[str] = set()
        self._first = True
        self._seen: dict[str, tuple[int, int] | None] = {}
        self._watch = _Watch(run.folder)
        self._grew = self._stuck = False

    def poll(self) -> list[Chunk]:
        """Take in what is new; returns new log lines. The last call (after which `ended`) returns the rest."""
        supervised = self.run.supervised()  # before the files: what it wrote last is then seen
        if self._changed("status.json") | self._changed("trouble"):
            self._stuck = bool(self.run.trouble())
            with suppress(RunDamaged):  # its supervisor writes it again
                self.status = self.run.observed_status()
        if self._changed("pods.json"):
            self.pods = self.run.pods()
            self._find_logs()
        chunks = self._read(supervised)
        self._grew = bool(chunks)
        # A suspended job has no supervisor, but it may be resumed.
        self.ended = not supervised and not self._merger.backlog and not self.status.suspended
        return chunks

    def has_trouble(self) -> bool:
        """Whether the supervisor cannot write its records; `RunDir.trouble` has the reason."""
        return self._stuck

    def wait(self) -> None:
        """Wait until the status changes, but not for long; less while lines arrive."""
        if not self.ended:
            self._watch.wait(self.pause)

    @property
    def pause(self) -> float:
        if self.status.over:
            return _ENDING  # its supervisor is about to exit, which changes no file
        return _BUSY if self._grew else _IDLE

    def close(self) -> None:
        self._watch.close()

    def _changed(self, name: str) -> bool:
        try:
            stat = os.stat(self.run.path(name))
            identity: tuple[int, int] | None = (stat.st_ino, stat.st_mtime_ns)
        except FileNotFoundError:
            identity = None
        except OSError as error:
            raise files.cannot_read(self.run.path(name), error) from error
        changed = self._seen.get(name) != identity
        self._seen[name] = identity
        return changed

    def _find_logs(self) -> None:
        if not self._logs:
            return
        for file in find_files(self.run, self.pods, self._chosen, self._known):
            offset = first_offset(file, self._since, self._tail) if self._first else 0
            self._known.add(file.path)
            self._merger.cursors.append(Cursor(file, offset))
        ended = {
            (pod.task, pod.index, pod.attempt, container.name): container.restarts
            + (container.ended is not None)
            for pod in self.pods
            for container in pod.containers
        }
        for cursor in self._merger.cursors:
            cursor.final = cursor.file.restart < ended.get(cursor.file.instance[:4], 0)

    def _read(self, supervised: bool) -> list[Chunk]:
        merger = self._merger
        if self._first and self._tail is not None:
            chunks = list(last_lines_of_containers(merger.read(follow=supervised), self._tail))
        else:
            chunks = list(merger.read(budget=_BUDGET, follow=supervised))
        self._first = False
        chunks += merger.drop_finished()
        if not supervised and not merger.backlog:
            chunks += merger.finish()
        return chunks


class _Watch:
    """Waits until a file in a folder is replaced, by inotify; a plain pause where there is no inotify."""

    _MOVED_TO = 0x80

    def __init__(self, folder: str) -> None:
        self._descriptor = -1
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "inotify_init1"):
            self._descriptor = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
            if (
                self._descriptor >= 0
                and libc.inotify_add_watch(self._descriptor, os.fsencode(folder), self._MOVED_TO) < 0
            ):
                self.close()

    def wait(self, seconds: float) -> None:
        if self._descriptor < 0:
            time.sleep(seconds)
            return
        if files.wait_readable(self._descriptor, seconds):
            try:
                os.read(self._descriptor, 65536)
            except BlockingIOError:
                pass

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
