"""The logs of a run: which files exist, and which part of them is requested.

A container has two log files, one per stream; their lines are merged by `LogMerger`. Used by the SDK and by the
failure report; a log that is still written to can be read at any time.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections import deque
from collections.abc import Container, Iterable, Iterator

from vcjob.local.logs.index import offset_at
from vcjob.local.logs.merger import Cursor, LogFile, LogMerger
from vcjob.local.logs.retention import next_data
from vcjob.local.machine.files import cannot_read
from vcjob.local.run.run_dir import RunDir
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState


def find_files(
    run: RunDir, pods: list[PodState], chosen: LogFilter, known: Container[str] = ()
) -> list[LogFile]:
    """The files of the newest instance of every container (or of the one before it), by rank, task and index.

    Files whose paths are `known` are left out.
    """
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
            wanted = [file for file in pair if file.stream == "err" or not chosen.stderr]
            found += [file for file in wanted if file.path not in known and os.path.exists(file.path)]
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
    """Everything that is in the files now, merged by time; with `tail` the last lines of each container."""
    merger = LogMerger(Cursor(file, first_offset(file, since, tail)) for file in files)
    chunks = itertools.chain(merger.read(), merger.finish())
    yield from chunks if tail is None else last_lines_of_containers(chunks, tail)


def first_offset(file: LogFile, since: float | None, tail: int | None) -> int:
    """Where the lines begin that are newer than `since` and among the last `tail` ones of this stream."""
    if since is None and tail is None:
        return 0
    try:
        log = os.open(file.path, os.O_RDONLY)
        try:
            size = os.fstat(log).st_size
            start = 0 if since is None else line_start(log, min(size, offset_at(file.path, since)))
            return start if tail is None else max(start, tail_offset(log, size, tail))
        finally:
            os.close(log)
    except FileNotFoundError:  # deleted since it was found
        return 0
    except OSError as error:
        raise cannot_read(file.path, error) from error


def last_lines_of_containers(chunks: Iterable[Chunk], count: int) -> Iterator[Chunk]:
    """The last `count` lines of each container, over both of its streams."""
    kept: dict[tuple[str, int, str], deque[tuple[int, Chunk]]] = {}
    numbers = itertools.count()
    for chunk in chunks:
        origin = chunk.origin
        last = kept.setdefault((origin.task, origin.index, origin.container), deque(maxlen=count))
        last.extend((next(numbers), line) for line in _single_lines(chunk))
    for _, line in heapq.merge(*kept.values(), key=lambda item: item[0]):
        yield line


def _single_lines(chunk: Chunk) -> Iterator[Chunk]:
    end = None if chunk.end is None else chunk.end - len(chunk.data)
    for line in chunk.data.split(b"\n")[:-1]:
        end = None if end is None else end + len(line) + 1
        yield chunk._replace(data=line + b"\n", end=end)


def line_start(descriptor: int, offset: int) -> int:
    """The beginning of the line that `offset` falls into; in a hole there are no lines."""
    if next_data(descriptor, offset)[0] > offset:
        return offset
    while offset > 0:
        begin = max(0, offset - 4096)
        piece = os.pread(descriptor, offset - begin, begin)
        cut = piece.rfind(b"\n")
        if cut >= 0:
            return begin + cut + 1
        offset = begin
    return 0


def tail_offset(descriptor: int, size: int, lines: int, first: int = 0) -> int:
    """Where the last `lines` lines begin, but not before `first`: nothing before it is read."""
    if lines <= 0:
        return size
    position, missing = size, lines + 1
    while position > first:
        begin = max(first, position - 65536)
        if next_data(descriptor, begin)[0] >= position:
            # Only a hole lies between `begin` and `position`: continue with the data before it.
            position = os.lseek(descriptor, 0, os.SEEK_HOLE)
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
    return first
