"""A job by its handle: look at it, wait for it, act on it, from any program, on whichever ground it runs.

What waits exists twice, for programs with and without an event loop (`wait` and `wait_async`); both drive the
same steps, so neither knows anything the other does not.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any, ClassVar, Protocol

import msgspec

from vcjob.errors import JobFailed, UserError
from vcjob.lifecycle.status import Phase, Status
from vcjob.report.failure import FailureReport
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState

ACTIONS = {
    "suspend": "AbortJob",
    "resume": "ResumeJob",
    "restart": "RestartJob",
    "complete": "CompleteJob",
    "stop": "TerminateJob",
}
#: Whole lines in pieces, and, where there is nothing new, the seconds to wait before going on.
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

    def __str__(self) -> str:
        return f"{self.prefix} {self.text}"


class Follower(Protocol):
    """A job as it happens: call `look` again and again, and `rest` in between, until `ended`."""

    status: Status
    pods: list[PodState]
    ended: bool

    def look(self) -> list[Chunk]:
        """Take in what is new; returns new log lines."""

    def stuck(self) -> bool:
        """Is there trouble that the handle's `trouble` tells of?"""

    def rest(self) -> None: ...

    def close(self) -> None: ...


class Handle(ABC):
    """A job, running or over."""

    name: str
    namespace: str
    uid: str
    #: What a command line needs beside the name to find the job again: " --on cluster -n team".
    options: str = ""
    #: Whether `stop(now=True)` ends it within a moment; a cluster may take its time.
    ends_at_once: ClassVar[bool] = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.namespace}/{self.name} {self.phase}>"

    # Looking

    @property
    def phase(self) -> str:
        return str(self.now().phase)

    @property
    @abstractmethod
    def created(self) -> float:
        """When it was made (epoch seconds)."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Has it ended? A suspended job has not."""

    @abstractmethod
    def now(self) -> Status:
        """The status in the terms of the lifecycle."""

    @property
    def replicas(self) -> int:
        return sum(self.replicas_by_task().values())

    @abstractmethod
    def replicas_by_task(self) -> dict[str, int]: ...

    @abstractmethod
    def status(self) -> dict[str, Any]:
        """The Job object with its `.status`, as Kubernetes would return it."""

    @abstractmethod
    def pods(self) -> list[PodState]:
        """Every pod that is known, as last seen."""

    @abstractmethod
    def events(self) -> list[dict[str, Any]]:
        """What happened, as Kubernetes Events, oldest first."""

    @abstractmethod
    def notes(self) -> list[str]:
        """What a user should be told beside the job's own state."""

    @abstractmethod
    def failure(self) -> FailureReport:
        """The first rank that failed, how, its last words, and who was only a victim."""

    def trouble(self) -> str:
        """Why the ground itself is in trouble just now, if so."""
        return ""

    def earlier(self) -> list[Handle]:
        """Earlier runs of the same name, newest first."""
        return []

    # Logs

    def logs(
        self,
        *,
        follow: bool = False,
        ranks: tuple[int, ...] = (),
        tasks: tuple[str, ...] = (),
        containers: tuple[str, ...] = (),
        attempt: int | None = None,
        previous: bool = False,
        since: float | None = None,
        tail: int | None = None,
    ) -> Iterator[LogLine]:
        """The lines of all ranks, in the order in which they were written. `since` is a moment (epoch seconds)."""
        chosen = LogFilter(ranks, tasks, containers, attempt, previous)
        for chunks in _drive(self.log_chunks(chosen, follow=follow, since=since, tail=tail)):
            for chunk in chunks:
                yield from lines_of(chunk)

    async def logs_async(
        self, chosen: LogFilter | None = None, *, follow: bool = True
    ) -> AsyncIterator[LogLine]:
        import asyncio

        for step in self.log_chunks(chosen or LogFilter(), follow=follow):
            if isinstance(step, float):
                await asyncio.sleep(step)
                continue
            for chunk in step:
                for line in lines_of(chunk):
                    yield line

    @abstractmethod
    def log_chunks(
        self,
        chosen: LogFilter,
        *,
        follow: bool = False,
        since: float | None = None,
        tail: int | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> LogSteps:
        """Whole lines in pieces; `on_note` is told of logs that cannot be read."""

    @abstractmethod
    def follow(self, chosen: LogFilter | None = None) -> Follower:
        """Everything as it happens: log lines, pods and status."""

    # Waiting

    @abstractmethod
    def wait(self, timeout: float | None = None, *, check: bool = False) -> str:
        """Wait for its end and return the phase; `check` raises JobFailed unless it completed."""

    @abstractmethod
    async def wait_async(self, timeout: float | None = None, *, check: bool = False) -> str: ...  # noqa: ASYNC109 - the same word as `wait`; its error says what the job is doing

    @abstractmethod
    def wait_for_command(self, timeout: float = 10.0) -> None:
        """Until what was asked for is recorded: from then on no crash can lose it."""

    def _ended(self, status: Status, check: bool) -> str:
        if check and status.phase is not Phase.COMPLETED:
            raise JobFailed(
                f"the job {self.name!r} is {status.phase}: {status.state.message or status.state.reason}"
            )
        return str(status.phase)

    # Acting

    def suspend(self) -> None:
        """End its pods but keep the job, to be resumed."""
        self._act("suspend")

    def resume(self) -> None:
        self._act("resume")

    def restart(self) -> None:
        """End all pods and start them anew; counts as a retry."""
        self._act("restart")

    def complete(self) -> None:
        """End its pods and call it Completed."""
        self._act("complete")

    def stop(self, *, now: bool = False) -> None:
        """End it: its pods get their grace period, or none at all with `now`."""
        self._act("stop")
        if now:
            self._kill()

    @abstractmethod
    def delete(self) -> None:
        """End it if it runs, and forget it."""

    def _act(self, verb: str) -> None:
        status = self.now()
        if status.over:
            raise UserError(
                f"the job {self.name!r} is over ({status.phase}): there is nothing to {verb}",
                hint=f"start it anew with `vcjob run FILE{self.options}`",
            )
        if verb == "resume" and status.phase not in (Phase.ABORTED, Phase.ABORTING):
            raise UserError(f"the job {self.name!r} is not suspended: it is {status.phase}")
        self._send(verb)

    @abstractmethod
    def _send(self, verb: str) -> None:
        """Ask whoever runs the job for the action of this verb."""

    @abstractmethod
    def _kill(self) -> None:
        """End what still runs without its grace period."""


def _drive(steps: LogSteps) -> Iterator[list[Chunk]]:
    for step in steps:
        if isinstance(step, float):
            time.sleep(step)
        else:
            yield step


def lines_of(chunk: Chunk) -> Iterator[LogLine]:
    of = chunk.origin
    for text in chunk.data.decode(errors="replace").split("\n")[:-1]:
        yield LogLine(of.rank, of.task, of.index, of.container, of.attempt, of.stream, text, of.prefix)
