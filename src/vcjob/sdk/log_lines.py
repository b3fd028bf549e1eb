"""The lines of a log as the SDK returns them. `handle` makes them from the chunks that a backend reads."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from vcjob.report.logs import Chunk

#: Whole lines in chunks, or, where there is nothing new, the seconds to wait before the next step.
LogSteps = Generator[list[Chunk] | float, None, None]


class LogLine(msgspec.Struct, frozen=True):
    """One line that a container wrote, and which one it was."""

    rank: int | None
    task: str
    index: int
    container: str
    attempt: int
    stream: str
    text: str
    prefix: str
    #: When it was written (epoch seconds), where the backend knows it.
    time: float | None = None

    def __str__(self) -> str:
        return f"{self.prefix} {self.text}"


def lines_of(chunk: Chunk) -> Iterator[LogLine]:
    """Each line of a chunk, with its origin."""
    of = chunk.origin
    for text in chunk.data.decode(errors="replace").split("\n")[:-1]:
        yield LogLine(
            of.rank, of.task, of.index, of.container, of.attempt, of.stream, text, of.prefix, chunk.received
        )
