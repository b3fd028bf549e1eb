"""The lines of a log as the SDK returns them, and what follows them while a job runs.

`handle` makes the lines from the chunks that a backend reads; a backend implements `Follower`.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Protocol

import msgspec

from vcjob.lifecycle.status import Status
from vcjob.report.logs import Chunk
from vcjob.report.podstate import PodState

#: Whole lines in chunks, or, where there is nothing new, the seconds to wait before the next step.
LogSteps = Generator[list[Chunk] | float, None, None]


class LogLine(msgspec.Struct, frozen=True):
    """One line that a container wrote, and which one it was.

    `Handle.logs` yields these; bytes that are not UTF-8 are replaced in `text`.
    """

    #: Its rank, where the Job has the plugin `pytorch`.
    rank: int | None
    #: The task that it belongs to.
    task: str
    #: Its index in the task.
    index: int
    #: The name of the container.
    container: str
    #: Which attempt of this index it is, from 0.
    attempt: int
    #: `out` or `err`; on a cluster, which keeps both in one log, always `out`.
    stream: str
    #: The line, without its end.
    text: str
    #: What `vcjob logs` prints in front of it.
    prefix: str
    #: When it was written (epoch seconds), where the backend knows it.
    time: float | None = None

    def __str__(self) -> str:
        return f"{self.prefix} {self.text}"


def chunks_of(steps: LogSteps) -> Iterator[Chunk]:
    """The chunks one by one, waiting where there is nothing new."""
    for step in steps:
        if isinstance(step, float):
            time.sleep(step)
        else:
            yield from step


def lines_of(chunk: Chunk) -> Iterator[LogLine]:
    """Each line of a chunk, with its origin."""
    of = chunk.origin
    for text in chunk.data.decode(errors="replace").split("\n")[:-1]:
        yield LogLine(
            of.rank, of.task, of.index, of.container, of.attempt, of.stream, text, of.prefix, chunk.received
        )


class Follower(Protocol):
    """The logs, pods and status of a job while it runs: call `poll` in a loop, with `wait` in between, until `ended`.

    Each backend implements it; `run`, `logs` and `watch` are such loops. `poll` raises what the handle would raise.
    """

    status: Status
    pods: list[PodState]
    ended: bool

    def poll(self) -> list[Chunk]:
        """Read what is new and return new log lines."""

    def has_trouble(self) -> bool:
        """Whether the handle's `trouble` has something to report."""

    def wait(self) -> None:
        """Wait a little, until there may be something new."""

    def close(self) -> None:
        """Stop following."""
