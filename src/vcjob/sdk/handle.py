"""The handle of a job: read its state and logs, wait for it, act on it, on whichever backend it runs.

`Handle` is the public class; `local.handle` and `cluster.handle` implement it. Methods that wait have an async twin
with the same arguments (`wait` and `wait_async`, `logs` and `logs_async`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from vcjob.errors import BackendError, JobFailed, UserError, VcjobError
from vcjob.lifecycle.status import Phase, Status
from vcjob.report.failure import FailureReport
from vcjob.report.logs import Chunk, LogFilter
from vcjob.report.podstate import PodState
from vcjob.sdk.log_choice import check_choice
from vcjob.sdk.log_lines import Follower, LogLine, LogSteps, chunks_of, lines_of
from vcjob.spec.job import BackendName

if TYPE_CHECKING:  # loaded when a job is diagnosed
    from vcjob.diagnosis.finding import Finding
    from vcjob.diagnosis.observation import Observation
    from vcjob.diagnosis.stacks import StackReport
    from vcjob.report.progress import Progress
    from vcjob.report.timeline import Timeline
    from vcjob.report.usage import UsageReport

__all__ = ["ACTIONS", "Chunk", "Follower", "Handle", "LogFilter", "LogLine", "LogSteps", "lines_of"]
EventsRead: TypeAlias = list[dict[str, Any]] | BackendError

ACTIONS = {
    "suspend": "AbortJob",
    "resume": "ResumeJob",
    "restart": "RestartJob",
    "complete": "CompleteJob",
    "stop": "TerminateJob",
}


class Handle(ABC):
    """A job on either backend, running or over. Created by `run`, `find` and `jobs`.

    It may be used from any thread, and after a fork. A job that was deleted raises NoSuchJob.
    """

    name: str
    namespace: str
    uid: str
    #: Where it runs.
    backend: ClassVar[BackendName]
    #: Whether the job is over when `stop(now=True)` has killed its pods; a cluster may take longer.
    ends_at_once: ClassVar[bool] = True

    def __repr__(self) -> str:
        try:
            phase = self.phase
        except VcjobError as error:  # a debugger or a log line may print any handle
            phase = f"({error.message})"
        return f"<{type(self).__name__} {self.namespace}/{self.name} {phase}>"

    def __eq__(self, other: object) -> bool:
        """Handles of the same run are equal, however they were made."""
        return isinstance(other, Handle) and (self.backend, self.uid) == (other.backend, other.uid)

    def __hash__(self) -> int:
        return hash((self.backend, self.uid))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait until the job is over; where the block ended with an exception, stop the job first."""
        if kind is not None:
            with suppress(UserError):  # it is over, or deleted
                self.stop()
        self.wait()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(UserError):
                await self.stop_async()
        await self.wait_async()

    # State

    @property
    def phase(self) -> str:
        """The current phase: Pending, Running, Completed, Failed, ..."""
        return str(self.status().phase)

    @property
    @abstractmethod
    def created(self) -> float:
        """When it was created (epoch seconds)."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether it is over. A suspended job is not."""

    @abstractmethod
    def status(self) -> Status:
        """The current status: phase, reason, counts of pods, retries."""

    @property
    def replicas(self) -> int:
        """The number of its pods."""
        return sum(self.replicas_by_task().values())

    @abstractmethod
    def replicas_by_task(self) -> dict[str, int]:
        """The number of pods of each task."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The Job object with its `.status`, as Kubernetes would return it."""

    @abstractmethod
    def read(self) -> tuple[Status, dict[str, Any]]:
        """`status()` and `to_dict()` from one read."""

    @abstractmethod
    def pods(self) -> list[PodState]:
        """Every pod that is known, as last seen."""

    @abstractmethod
    def events(self) -> list[dict[str, Any]]:
        """What happened, as Kubernetes Events, oldest first."""

    @abstractmethod
    def notes(self) -> list[str]:
        """What the user should know in addition to the job's state: a replaced port, a field without effect."""

    @abstractmethod
    def observe(self) -> Observation:
        """What the diagnosis needs: pods, how containers ended, their last lines, events. It can be stored as JSON."""

    def why(self) -> list[Finding]:
        """Why the job is pending, failed or hangs: the most likely cause first; empty where nothing is wrong."""
        from vcjob.diagnosis.diagnose import diagnose

        return diagnose(self.observe())

    def find_hangs(self, observation: Observation) -> list[Finding] | None:
        """What ranks that hang report, on a cluster by a program in their pods; None where `observe` includes it."""
        return None

    def unread(self) -> str:
        """What the last `why()` or `find_hangs()` could not read about a running job and why, in one sentence; else empty."""
        return ""

    def failure(self) -> FailureReport:
        """Which rank failed first, how, its last lines, and which ranks ended only because of it."""
        from vcjob.diagnosis.report import failure_report

        return failure_report(self.observe())

    def progress(self) -> Progress | None:
        """How far it is, from the last lines of rank 0; None where that is not certain."""
        return None

    def progress_by_pod(self) -> dict[str, Progress]:
        """How far each running pod is, by uid; without the pods where that is not certain."""
        return {}

    def source_text(self) -> str | None:
        """The Job as the user wrote it, without defaults; None where nobody kept it."""
        return None

    def timeline(self) -> Timeline:
        """Where its time went, per pod, until its end or until now."""
        from vcjob.report.timeline import timeline_of

        return timeline_of(self.name, self.created, self.status().finished, self.pods(), time.time())

    @abstractmethod
    def stacks(self, *, ranks: tuple[int, ...] = (), image: str | None = None) -> StackReport:
        """Where every rank that runs is, from its Python stack; `ranks` chooses some of them.

        image: on a cluster, an image with py-spy, which is run in an ephemeral container where the rank's own image
        has none.
        """

    @abstractmethod
    def usage(self, *, ranks: tuple[int, ...] = (), seconds: float = 1.0) -> UsageReport:
        """What every rank that runs uses: here measured over `seconds`, on a cluster as its metrics API says."""

    def trouble(self) -> str:
        """Why the backend itself cannot work at present; empty if it can."""
        return ""

    def watching(self) -> AbstractContextManager[None]:
        """While this is entered, the job is not removed because its ttlSecondsAfterFinished is over."""
        return nullcontext()

    def one_read(self, events: EventsRead | None = None) -> AbstractContextManager[None]:
        """While this is entered, a cluster is asked once for the job, its pods, and its events if none are given."""
        return nullcontext()

    def earlier_runs(self) -> list[Handle]:
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
        """The lines of all ranks, in the order in which they were written. `since` is in epoch seconds."""
        chosen = LogFilter(ranks, tasks, containers, attempt, previous)
        check_choice(self, chosen, follow=follow)
        for chunk in chunks_of(self.log_chunks(chosen, follow=follow, since=since, tail=tail)):
            yield from lines_of(chunk)

    async def logs_async(
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
    ) -> AsyncIterator[LogLine]:
        """As `logs`, for programs with an event loop."""
        import asyncio

        chosen = LogFilter(ranks, tasks, containers, attempt, previous)
        check_choice(self, chosen, follow=follow)
        for step in self.log_chunks(chosen, follow=follow, since=since, tail=tail):
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
        timestamps: bool = False,
        on_note: Callable[[str], None] | None = None,
        record_progress: bool = True,
    ) -> LogSteps:
        """Whole lines in chunks, with `timestamps` each with its time; `on_note` is called for logs that cannot be read.
        Without `record_progress`, following a job of a cluster does not write its progress into the Job."""

    @abstractmethod
    def follow(self, chosen: LogFilter | None = None) -> Follower:
        """Log lines, pods and status as they change."""

    def show(self, *, follow: bool = False, height: int = 600) -> None:
        """Show its page in a notebook: cause, charts, ranks, events and last lines; with `follow` until it is over."""
        from vcjob.ui.notebook import show

        show(self, follow=follow, height=height)

    # Waiting

    @abstractmethod
    def wait(self, timeout: float | None = None, *, until: str | None = None, check: bool = False) -> str:
        """Wait until it is over and return its phase.

        until: return as soon as it has this phase, such as "Running"; a job that ends before is not waited for.
        check: raise JobFailed if it ended in another phase than Completed. WaitTimeout after `timeout` seconds.
        """

    @abstractmethod
    async def wait_async(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - unlike asyncio.timeout, its error says what the job is doing
        *,
        until: str | None = None,
        check: bool = False,
    ) -> str: ...

    @abstractmethod
    def wait_for_command(self, timeout: float = 10.0) -> None:
        """Wait until the last request is recorded, so that no crash can lose it; BackendError if nobody handles it."""

    def _ended(self, status: Status, until: Phase | None, check: bool) -> str:
        if check and status.over and status.phase not in (Phase.COMPLETED, until):
            raise self._failed(status)
        return str(status.phase)

    def _failed(self, status: Status) -> JobFailed:
        report: FailureReport | None = None
        with suppress(VcjobError):  # the failure itself counts, even if its logs can no longer be read
            report = self.failure()
        return JobFailed(
            f"the job {self.name!r} is {status.phase}: {status.state.message or status.state.reason}",
            hint=(report and report.hint) or None,
            phase=str(status.phase),
            report=report,
            handle=self,
        )

    # Actions

    def suspend(self) -> None:
        """End its pods but keep the job, to be resumed."""
        self._act("suspend")

    def resume(self) -> None:
        """Start the pods of a suspended job again; costs no retry."""
        self._act("resume")

    def restart(self) -> None:
        """End all pods and start new ones; counts as a retry."""
        self._act("restart")

    def complete(self) -> None:
        """End its pods and mark it Completed."""
        self._act("complete")

    def stop(self, *, now: bool = False) -> None:
        """End it: its pods get their grace period, or none at all with `now`."""
        self._act("stop")
        if now:
            self._kill()

    async def stop_async(self, *, now: bool = False) -> None:
        """As `stop`, for programs with an event loop."""
        import asyncio

        await asyncio.to_thread(self.stop, now=now)

    @abstractmethod
    def exec(
        self,
        command: Sequence[str],
        *,
        rank: int | None = None,
        task: str | None = None,
        index: int | None = None,
        container: str | None = None,
    ) -> int:
        """Run a command next to a rank, with this program's standard streams, and return its exit code.

        It sees the rank's environment, files and mounts. Where the job has one running pod, none need be named.
        """

    def discard_unserved(self) -> bool:
        """Delete the job if no controller has picked it up; False where one has, or where none is needed."""
        return False

    @abstractmethod
    def delete(self) -> None:
        """End it if it runs, and remove it."""

    def _act(self, verb: str) -> None:
        status = self.status()
        if status.over:
            raise UserError(
                f"the job {self.name!r} is over ({status.phase}): there is nothing to {verb}",
                hint="start it again with `vcjob run`",
            )
        if verb == "resume" and status.phase not in (Phase.ABORTED, Phase.ABORTING):
            raise UserError(f"the job {self.name!r} is not suspended: it is {status.phase}")
        if verb == "resume" and status.suspended_by == "spec":
            raise UserError(
                f"the job {self.name!r} is suspended by its own spec, which a verb does not change",
                hint="set spec.suspend to false: in the file, and run it again; or in the Job of the cluster",
            )
        self._send(verb)

    @abstractmethod
    def _send(self, verb: str) -> None:
        """Send the action of this verb to the supervisor or the controller."""

    @abstractmethod
    def _kill(self) -> None:
        """Kill the pods that still run, without their grace period."""
