"""A job on this machine, by its handle: look at it, wait for it, act on it, from any program.

What waits exists twice, for programs with and without an event loop (`wait` and `wait_async`); both drive the
same steps, so neither knows anything the other does not.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import msgspec

from vcjob.errors import JobFailed, UserError, WaitTimeout
from vcjob.lifecycle.status import Phase, Status
from vcjob.local.failure import FailureReport, explain
from vcjob.local.follow import Follower
from vcjob.local.logindex import offset_at
from vcjob.local.logs import Chunk, LogFilter, find_files, read_all
from vcjob.local.podstate import PodState
from vcjob.local.recover import settle
from vcjob.local.run import Run
from vcjob.local.start import start_supervisor
from vcjob.local.store import Store
from vcjob.sdk.events import as_event

ACTIONS = {
    "suspend": "AbortJob",
    "resume": "ResumeJob",
    "restart": "RestartJob",
    "complete": "CompleteJob",
    "stop": "TerminateJob",
}

_NOTED = ("NotAsOnACluster", "PortReplaced", "CommandRefused")


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


class Handle:
    """A job that was started here, running or over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        metadata = run.job().metadata
        self.name = metadata.name
        self.namespace = metadata.namespace or "default"
        self.uid = run.uid

    def __repr__(self) -> str:
        return f"<Handle {self.namespace}/{self.name} {self.phase}>"

    @property
    def folder(self) -> str:
        """Where its files are."""
        return self._run.folder

    @property
    def supervised(self) -> bool:
        """Does its supervisor live?"""
        return self._run.supervised()

    # Looking

    @property
    def phase(self) -> str:
        return str(settle(self._run).phase)

    @property
    def done(self) -> bool:
        """Has it ended, with none of its processes left? A suspended job has not."""
        return settle(self._run).over and not self._run.supervised()

    def now(self) -> Status:
        """The status in the terms of the lifecycle."""
        return settle(self._run)

    @property
    def replicas(self) -> int:
        return sum(self.replicas_by_task().values())

    def replicas_by_task(self) -> dict[str, int]:
        return {task.name: task.replicas for task in self._run.job().tasks}

    def status(self) -> dict[str, Any]:
        """The Job object with its `.status`, as Kubernetes would return it."""
        return {**self._run.job().doc, "status": settle(self._run).to_kube()}

    def pods(self) -> list[PodState]:
        """Every pod of every attempt, as last seen."""
        settle(self._run)
        return self._run.pods()

    def events(self) -> list[dict[str, Any]]:
        """What happened, as Kubernetes Events, oldest first."""
        settle(self._run)
        return [as_event(self, number, event) for number, event in enumerate(self._run.events())]

    def notes(self) -> list[str]:
        """What of the Job means something else here than on a cluster."""
        return [event.message for event in self._run.events() if event.reason in _NOTED]

    def failure(self) -> FailureReport:
        """The first rank that failed, how, its last words, and who was only a victim."""
        status = settle(self._run)
        return explain(self._run, status, self._run.pods())

    def trouble(self) -> str:
        """Why the job store cannot be written just now, if so."""
        return self._run.trouble()

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

    def log_chunks(
        self, chosen: LogFilter, *, follow: bool = False, since: float | None = None, tail: int | None = None
    ) -> Generator[list[Chunk] | float, None, None]:
        """Whole lines in pieces, and, where there is nothing new, the seconds to wait before going on."""
        settle(self._run)
        if not follow:
            for chunk in read_all(find_files(self._run, self._run.pods(), chosen), since=since, tail=tail):
                yield [chunk]
            return
        follower = Follower(self._run, chosen)
        try:
            # What is there already, in its order; then only what is new.
            follower.attach()
            for old in follower.attached():
                if since is not None:
                    old.skip_to(offset_at(old.file.path, since))
                if tail is not None:
                    old.skip_to_tail(tail)
            while not follower.ended:
                chunks = follower.look()
                yield chunks if chunks else follower.pause
        finally:
            follower.close()

    def follow(self, chosen: LogFilter | None = None) -> Follower:
        """Everything as it happens: log lines, pods and status."""
        return Follower(self._run, chosen or LogFilter(every_try=True))

    # Waiting

    def wait(self, timeout: float | None = None, *, check: bool = False) -> str:
        """Wait for its end and return the phase; `check` raises JobFailed unless it completed."""
        for pause in self._waiting(timeout):
            time.sleep(pause)
        return self._ended(check)

    async def wait_async(self, timeout: float | None = None, *, check: bool = False) -> str:  # noqa: ASYNC109 - ends cleanly by itself
        import asyncio

        for pause in self._waiting(timeout):
            await asyncio.sleep(pause)
        return self._ended(check)

    def _waiting(self, timeout: float | None) -> Generator[float, None, None]:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while not self.done:
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"the job {self.name!r} is still {self.phase} after {timeout:g} s")
            left = pause if deadline is None else max(0.0, deadline - time.monotonic())
            yield min(pause, left)
            pause = 0.01 if settle(self._run).over else min(pause * 1.3, 0.1)

    def wait_for_command(self, timeout: float = 10.0) -> None:
        """Until what was asked for is recorded: from then on no crash can lose it."""
        deadline = time.monotonic() + timeout
        while self._run.commands() and self._run.supervised() and time.monotonic() < deadline:
            time.sleep(0.01)

    def _ended(self, check: bool) -> str:
        status = settle(self._run)
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
            self._run.send("Kill", time.time())

    def delete(self) -> None:
        """End it at once if it runs, and forget it with all its runs and logs."""
        if self._run.supervised():
            self.stop(now=True)
            self.wait()
        Store.of(self._run).delete(self._run)

    def _act(self, verb: str) -> None:
        status = settle(self._run)
        if status.over:
            raise UserError(
                f"the job {self.name!r} is over ({status.phase}): there is nothing to {verb}",
                hint="start it anew with `vcjob run FILE`",
            )
        if verb == "resume" and status.phase not in (Phase.ABORTED, Phase.ABORTING):
            raise UserError(f"the job {self.name!r} is not suspended: it is {status.phase}")
        self._run.send(ACTIONS[verb], time.time(), by=f"vcjob {verb}")
        self._supervise()

    def _supervise(self) -> None:
        """A suspended job has no supervisor; what is asked of it now needs one."""
        for _ in range(100):
            if not self._run.commands():
                return
            lock = self._run.lock()
            if lock is not None:
                start_supervisor(self._run, lock)
                return
            if (self._run.status() or Status()).phase is not Phase.ABORTED:
                return  # its supervisor is there and will see the request
            time.sleep(0.02)  # it may be about to end


def _drive(steps: Generator[list[Chunk] | float, None, None]) -> Iterator[list[Chunk]]:
    for step in steps:
        if isinstance(step, float):
            time.sleep(step)
        else:
            yield step


def lines_of(chunk: Chunk) -> Iterator[LogLine]:
    file = chunk.file
    for text in chunk.data.decode(errors="replace").split("\n")[:-1]:
        yield LogLine(
            file.rank, file.task, file.index, file.container, file.attempt, file.stream, text, file.prefix
        )  # fmt: skip
