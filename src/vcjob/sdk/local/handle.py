"""The handle of a job on this machine. Created by `local_backend` and `local.start`.

It holds nothing but the folder of the run: every method reads the job store again, and first settles a run whose
supervisor was killed. A run that another process deleted is NoSuchJob, an unreadable one RunDamaged.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

from vcjob.errors import BackendError, NoSuchJob, UserError, WaitTimeout
from vcjob.lifecycle.status import Phase, Status, phase_named
from vcjob.local.jobs.recovery import pods_of, settle
from vcjob.local.jobs.requests import request, supervisor_of
from vcjob.local.jobs.store import Store
from vcjob.local.logs.follower import Follower
from vcjob.local.logs.reader import find_files, read_all
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.prestart import start_supervisor
from vcjob.report.logs import LogFilter
from vcjob.report.podstate import PodState
from vcjob.sdk.handle import ACTIONS, Handle, LogSteps
from vcjob.sdk.local.events import as_event
from vcjob.sdk.pod_choice import choose_container, running_pods
from vcjob.wellknown import causes, reasons

if TYPE_CHECKING:
    from vcjob.diagnosis.stacks import StackReport
    from vcjob.report.progress import Progress
    from vcjob.report.timeline import Timeline
    from vcjob.report.usage import UsageReport

if TYPE_CHECKING:
    from vcjob.diagnosis.observation import Observation

_NOTED = (
    reasons.CORES_SHARED,
    reasons.UNSUPPORTED_LOCALLY,
    reasons.PORT_REPLACED,
    reasons.COMMAND_REJECTED,
    reasons.LOGS_TRUNCATED,
    reasons.LOGS_LOST,
    reasons.HANG_ENDED,
    causes.RANK_BEHIND,
    causes.RANK_NOT_CONNECTED,
    causes.MASTER_NOT_LISTENING,
    causes.MASTER_UNREACHABLE,
    causes.WORLD_SIZE_MISMATCH,
    causes.COLLECTIVE_MISMATCH,
    causes.RANK_EXITED_EARLY,
)

#: How long `delete` waits for a supervisor that kills its ranks.
_KILL_SECONDS = 30.0


class LocalHandle(Handle):
    """A run in this machine's job store. Every method reads the store again.

    Requests go to the run's supervisor through `jobs.requests`. NoSuchJob once the run is deleted, StoreError if its
    files cannot be read.
    """

    backend = "local"

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self.name = run.name
        self.namespace = run.namespace
        self.uid = run.uid

    @property
    def folder(self) -> str:
        """The folder with its files."""
        return self._run.folder

    @property
    def supervised(self) -> bool:
        """Whether its supervisor is running."""
        return self._run.supervised()

    # State

    @property
    def created(self) -> float:
        return self._run.created() / 1e9

    @property
    def done(self) -> bool:
        """Whether it is over and none of its processes is left."""
        return settle(self._run).over and not self._run.supervised()

    def status(self) -> Status:
        return settle(self._run)

    def replicas_by_task(self) -> dict[str, int]:
        return {task.name: task.replicas for task in self._run.job().tasks}

    def to_dict(self) -> dict[str, Any]:
        return self.read()[1]

    def read(self) -> tuple[Status, dict[str, Any]]:
        job, status = self._run.job(), settle(self._run)
        return status, {**job.doc, "status": status.to_kube()}

    def pods(self) -> list[PodState]:
        """Every pod of every attempt, as last seen."""
        settle(self._run)
        return pods_of(self._run)

    def events(self) -> list[dict[str, Any]]:
        settle(self._run)
        return [as_event(self, number, event) for number, event in enumerate(self._run.events())]

    def notes(self) -> list[str]:
        """What in the Job has another meaning here than on a cluster, and other things to know."""
        return [event.message for event in self._run.events() if event.reason in _NOTED]

    def observe(self) -> Observation:
        from vcjob.local.logs.observation import collect

        status = settle(self._run)
        return collect(self._run, status, pods_of(self._run))

    def progress(self) -> Progress | None:
        from vcjob.local.logs.progress import read_progress

        return read_progress(self._run, pods_of(self._run))

    def progress_by_pod(self) -> dict[str, Progress]:
        from vcjob.local.logs.progress import read_progress_by_pod

        return read_progress_by_pod(self._run, pods_of(self._run))

    def timeline(self) -> Timeline:
        from vcjob.local.logs.rank_reports import read_starts
        from vcjob.report.timeline import timeline_of

        pods = self.pods()
        starts = {pod.uid: read_starts(self._run.pod_folder(pod.name, pod.attempt)) for pod in pods}
        return timeline_of(self.name, self.created, self.status().finished, pods, time.time(), starts=starts)

    def source_text(self) -> str | None:
        return self._run.source_text()

    def stacks(self, *, ranks: tuple[int, ...] = (), image: str | None = None) -> StackReport:
        from vcjob.local.live.stacks import read_stacks
        from vcjob.local.logs.rank_reports import read_reports

        if image is not None:
            raise UserError(
                "an image for the stacks is for ranks on a cluster; on this machine py-spy is run directly"
            )
        return read_stacks(
            running_pods(self, ranks),
            lambda pod: read_reports(self._run.pod_folder(pod.name, pod.attempt)),
        )

    def usage(self, *, ranks: tuple[int, ...] = (), seconds: float = 1.0) -> UsageReport:
        from vcjob.local.live.usage import measure
        from vcjob.local.logs.progress import read_step_rates
        from vcjob.report.usage import with_step_rates

        pods = running_pods(self, ranks)
        return with_step_rates(measure(self.name, pods, seconds), read_step_rates(self._run, pods))

    def trouble(self) -> str:
        """Why the job store cannot be written, or which file of this run is damaged, if so."""
        return self._run.trouble() or " ".join(self._run.damage.values())

    def watching(self) -> AbstractContextManager[None]:
        return self._run.watching()

    def earlier_runs(self) -> list[Handle]:
        runs = Store.of(self._run).older(self.name, self.namespace)
        if any(run.uid == self.uid for run in runs):  # else it is the newest, whatever the clock said
            runs = [run for run in runs if run.created() < self._run.created()]
        return [LocalHandle(run) for run in runs]

    # Logs

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
        settle(self._run)
        if not follow:
            for chunk in read_all(find_files(self._run, pods_of(self._run), chosen), since=since, tail=tail):
                yield [chunk]
            return
        follower = Follower(self._run, chosen, since=since, tail=tail)
        try:
            while not follower.ended:
                chunks = follower.poll()
                yield chunks if chunks else follower.pause
        finally:
            follower.close()

    def follow(self, chosen: LogFilter | None = None) -> Follower:
        return Follower(self._run, chosen or LogFilter(every_try=True))

    # Waiting

    def wait(self, timeout: float | None = None, *, until: str | None = None, check: bool = False) -> str:
        phase = phase_named(until)
        with self._run.watching():
            for pause in self._waiting(timeout, phase):
                time.sleep(pause)
            return self._ended(settle(self._run), phase, check)

    async def wait_async(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - unlike asyncio.timeout, its error says what the job is doing
        *,
        until: str | None = None,
        check: bool = False,
    ) -> str:
        import asyncio

        phase = phase_named(until)
        with self._run.watching():
            for pause in self._waiting(timeout, phase):
                await asyncio.sleep(pause)
            return await asyncio.to_thread(self._ended, settle(self._run), phase, check)

    def _waiting(self, timeout: float | None, until: Phase | None) -> Generator[float, None, None]:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.01
        while not self.done and (until is None or self.status().phase is not until):
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"the job {self.name!r} is still {self.phase} after {timeout:g} s")
            left = pause if deadline is None else max(0.0, deadline - time.monotonic())
            yield min(pause, left)
            pause = 0.01 if settle(self._run).over else min(pause * 1.3, 0.1)

    def wait_for_command(self, timeout: float = 10.0) -> None:
        deadline = time.monotonic() + timeout
        while self._run.commands() and self._run.supervised():
            if time.monotonic() >= deadline:
                pid = supervisor_of(self._run)
                raise BackendError(
                    f"the supervisor of the job {self.name!r} (process {pid}) has not handled the request for "
                    f"{timeout:g} s; the request stays in the job store until it does",
                    hint=f"if that process is stopped, `kill -CONT {pid}` continues it; "
                    f"`vcjob delete {self.name}` kills it and removes the job",
                )
            time.sleep(0.01)

    # Actions

    def exec(
        self,
        command: Sequence[str],
        *,
        rank: int | None = None,
        task: str | None = None,
        index: int | None = None,
        container: str | None = None,
    ) -> int:
        from vcjob.local.pod.enter import run_in_container

        pod, chosen = choose_container(self, rank, task, index, container)
        return run_in_container(pod, chosen, command)

    def delete(self) -> None:
        """End it at once if it runs, and remove it with its logs: the newest run with the earlier ones, an earlier alone."""
        if self._run.supervised():
            with suppress(UserError):  # it has just ended, or another process has just deleted it
                self.stop(now=True)
            with suppress(NoSuchJob):
                self._wait_for_kill()
        Store.of(self._run).delete(self._run)

    def _wait_for_kill(self) -> None:
        """Wait until the supervisor has killed its ranks; one that is stopped or hangs is killed with them."""
        try:
            self.wait_for_command()
            self.wait(_KILL_SECONDS)
        except (BackendError, WaitTimeout):
            pid = supervisor_of(self._run)
            if pid is None:
                raise
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.wait(_KILL_SECONDS)

    def _send(self, verb: str) -> None:
        request(self._run, ACTIONS[verb], by=f"vcjob {verb}")
        self._supervise()

    def _kill(self) -> None:
        request(self._run, "Kill")

    def _supervise(self) -> None:
        """Start a supervisor for the request if there is none: a suspended job has none."""
        for _ in range(100):
            if not self._run.commands():
                return
            lock = self._run.lock()
            if lock is not None:
                start_supervisor(self._run, lock)
                return
            if (self._run.status() or Status()).phase is not Phase.ABORTED:
                return  # its supervisor will see the request
            time.sleep(0.02)  # it may be about to end
