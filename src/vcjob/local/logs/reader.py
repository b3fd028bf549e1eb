"""The logs of a run: which files there are, and their lines in the order in which they were written.

Every container writes two files, one per stream. Their order among each other comes from the time indexes
that the supervisor keeps (`logindex`), so it is exact within a stream and good to a tenth of a second between
streams and ranks.
"""

from __future__ import annotations

import heapq
import os
from collections import deque
from collections.abc import Iterator

from vcjob.local.logs.index import offset_at, read_index
from vcjob.local.logs.retention import data_from, read_on
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import Chunk, LogFilter, LogOrigin
from vcjob.report.podstate import PodState

_PIECE = 1 << 18
#: With more files than these each is opened for every piece anew: a process may have 1,024 open, as a rule.
_MOST_OPEN = 256


class LogFile(LogOrigin, frozen=True, kw_only=True, gc=False):
    path: str


def find_files(run: RunDir, pods: list[PodState], chosen: LogFilter) -> list[LogFile]:
    """The files of the newest try of every container (or of the one before it), by rank, task and index."""
    found: list[LogFile] = []
    tries: dict[tuple[str, int, str], list[list[LogFile]]] = {}
    for pod in sorted(pods, key=_by_rank):
        if not chosen.takes(pod):
            continue
        for container in pod.containers:
            if chosen.containers and container.name not in chosen.containers:
                continue
            main = container.role == "main" and sum(c.role == "main" for c in pod.containers) == 1
            for restart in range(container.restarts + 1):
                pair = _files(run, pod, container.name, main, restart)
                tries.setdefault((pod.task, pod.index, container.name), []).append(pair)
    for each in tries.values():
        last = len(each) - 1 if chosen.previous else len(each)
        for pair in each[0 if chosen.every_try else max(0, last - 1) : last]:
            found += [file for file in pair if os.path.exists(file.path)]
    return found


def _by_rank(pod: PodState) -> tuple[bool, int, str, int, int]:
    return pod.rank is None, pod.rank or 0, pod.task, pod.index, pod.attempt


def _files(run: RunDir, pod: PodState, container: str, main: bool, restart: int) -> list[LogFile]:
    base = os.path.join(run.pod_folder(pod.name, pod.attempt), f"{container}.{restart}")
    return [
        LogFile(
            path=f"{base}.{stream}",
            rank=pod.rank,
            task=pod.task,
            index=pod.index,
            attempt=pod.attempt,
            container=container,
            main=main,
            restart=restart,
            stream=stream,
        )
        for stream in ("out", "err")
    ]


def read_all(files: list[LogFile], *, since: float | None = None, tail: int | None = None) -> Iterator[Chunk]:
    """Everything that is in the files now, merged by time."""
    chunks = _merged(files, since, tail)
    if tail is None:
        yield from chunks
        return
    # --tail counts per container, over both of its streams.
    kept: dict[tuple[str, int, str], deque[tuple[int, LogOrigin, bytes]]] = {}
    number = 0
    for chunk in chunks:
        name = (chunk.origin.task, chunk.origin.index, chunk.origin.container)
        last = kept.setdefault(name, deque(maxlen=tail))
        for line in chunk.data.splitlines(keepends=True):
            number += 1
            last.append((number, chunk.origin, line))
    for _, origin, line in sorted(
        (item for last in kept.values() for item in last), key=lambda item: item[0]
    ):
        yield Chunk(origin, line)


def _merged(files: list[LogFile], since: float | None, tail: int | None) -> Iterator[Chunk]:
    stay_open = len(files) <= _MOST_OPEN
    sources = [_timed_pieces(place, file, since, tail, stay_open) for place, file in enumerate(files)]
    rests: dict[int, bytes] = {}
    for _, place, data in heapq.merge(*sources, key=lambda piece: piece[:2]):
        data = rests.pop(place, b"") + data
        whole, newline, rest = data.rpartition(b"\n")
        if rest:
            rests[place] = rest
        if newline:
            yield Chunk(files[place], whole + newline)
    for place, rest in sorted(rests.items()):
        yield Chunk(files[place], rest + b"\n")


def _timed_pieces(
    place: int, file: LogFile, since: float | None, tail: int | None, stay_open: bool
) -> Iterator[tuple[float, int, bytes]]:
    """The file in pieces, each with the time at which it had surely been written, and the file's place."""
    log = os.open(file.path, os.O_RDONLY)
    try:
        size = os.fstat(log).st_size
        start = 0 if since is None else line_start(log, offset_at(file.path, since))
        if tail is not None:
            start = max(start, tail_offset(log, size, tail))
        index = [entry for entry in read_index(file.path) if start < entry[1] <= size]
        if not index or index[-1][1] < size:
            index.append((os.fstat(log).st_mtime, size))
        for moment, end in index:
            while start < end:
                if log < 0:
                    log = os.open(file.path, os.O_RDONLY)
                data, start = read_on(log, start, min(end - start, _PIECE))
                if not data:
                    return
                if not stay_open:
                    os.close(log)
                    log = -1
                yield moment, place, data
    finally:
        if log >= 0:
            os.close(log)


def line_start(descriptor: int, offset: int) -> int:
    """The beginning of the line that `offset` falls into; in a hole there are no lines."""
    if data_from(descriptor, offset)[0] > offset:
        return offset
    while offset > 0:
        begin = max(0, offset - 4096)
        piece = os.pread(descriptor, offset - begin, begin)
        cut = piece.rfind(b"\n")
        if cut >= 0:
            return begin + cut + 1
        offset = begin
    return 0


def tail_offset(descriptor: int, size: int, lines: int) -> int:
    """Where the last `lines` lines begin."""
    if lines <= 0:
        return size
    position, missing = size, lines + 1
    while position > 0:
        begin = max(0, position - 65536)
        if data_from(descriptor, begin)[0] >= position:
            position = os.lseek(
                descriptor, 0, os.SEEK_HOLE
            )  # nothing but a hole before here: go on before it
            continue
        piece = os.pread(descriptor, position - begin, begin)
        if position == size and not piece.endswith(b"\n"):
            missing -= 1  # an unfinished last line is a line
        count = piece.count(b"\n")
        if count >= missing:
            cut = len(piece)
            for _ in range(missing):
                cut = piece.rfind(b"\n", 0, cut)
            return begin + cut + 1
        missing -= count
        position = begin
    return 0
