"""The handle of a job on a cluster. Created by `cluster_backend`.

It holds the Job object as last read and its uid; every request goes through the shared `ClusterConnection`. Errors of
the API server arrive as BackendError or UserError with a hint; a deleted Job is NoSuchJob.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from vcjob.admission import defaults
from vcjob.cluster.client.job_follower import JobFollower
from vcjob.cluster.client.jobs import JobKey
from vcjob.cluster.client.log_reader import LogReader
from vcjob.cluster.client.log_source import Sink, moment_of
from vcjob.errors import BackendError, JobFailed, NoSuchJob, UserError, WaitTimeout
from vcjob.lifecycle.status import Phase, Status, phase_named
from vcjob.report.logs import LogFilter
from vcjob.report.podstate import PodState
from vcjob.sdk.cluster.connection import ClusterConnection
from vcjob.sdk.cluster.follower import ClusterFollower
from vcjob.sdk.cluster.pods import pod_state
from vcjob.sdk.cluster.progress import ProgressWriter
from vcjob.sdk.cluster.status import created_at, is_note, status_of
from vcjob.sdk.handle import ACTIONS, EventsRead, Handle, LogSteps
from vcjob.sdk.pod_choice import choose_container, running_pods
from vcjob.spec.job import Job

if TYPE_CHECKING:
    from vcjob.diagnosis.finding import Finding
    from vcjob.diagnosis.observation import Observation
    from vcjob.diagnosis.stacks import StackReport
    from vcjob.report.progress import Progress
    from vcjob.report.timeline import Timeline
    from vcjob.report.usage import UsageReport

_PAUSE = 0.05
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_FRESH_SECONDS = 1.0
#: A job of a list is not read again for `one_read`, however long the rest of the list takes, within reason.
_ONE_READ_SECONDS = 30.0
T = TypeVar("T")


class ClusterHandle(Handle):
    """A Job object of a cluster, by its uid: a later Job of the same name is another one.

    Its methods block while the connection's thread sends their requests. NoSuchJob once the Job is deleted.
    """

    backend = "cluster"
    ends_at_once = False

    def __init__(self, connection: ClusterConnection, job: dict[str, Any]) -> None:
        self._connection = connection
        self._job = job
        self._key = JobKey.of(job)
        self._command: JobKey | None = None
        self._notes: list[str] | None = None
        self._followed: dict[str, PodState] = {}
        self._fresh_until = time.monotonic() + _FRESH_SECONDS
        self._usage_due = 0.0
        self._unread = ""
        self._once: dict[str, Any] | None = None  # what was read while `one_read` is entered
        self.name, self.namespace, self.uid = self._key.name, self._key.namespace, self._key.uid

    def __repr__(self) -> str:
        return f"<ClusterHandle {self.namespace}/{self.name} {status_of(self._job).phase}>"

    # State

    @property
    def created(self) -> float:
        return created_at(self._job)

    @property
    def done(self) -> bool:
        return self.status().over

    def status(self) -> Status:
        return status_of(self.to_dict())

    def replicas_by_task(self) -> dict[str, int]:
        return {task.name: task.replicas for task in Job(defaults.apply(self._job)).tasks}

    def to_dict(self) -> dict[str, Any]:
        """The Job object as it is now."""
        once = self._once
        if once is not None and "job" in once:
            return self._job
        kept = _ONE_READ_SECONDS if once is not None and self._fresh_until else 0.0
        if time.monotonic() >= self._fresh_until + kept:
            self._job = self._connection.loop.call(
                self._connection.jobs.job(self.name, self.namespace, self.uid)
            )
        self._fresh_until = 0.0  # a list or a wait saves the next read, and only that
        if once is not None:
            once["job"] = True
        return self._job

    @contextmanager
    def one_read(self, events: EventsRead | None = None) -> Iterator[None]:
        if self._once is not None:
            yield
            return
        self._once = {} if events is None else {"events": events}
        try:
            yield
        finally:
            self._once = None

    def read(self) -> tuple[Status, dict[str, Any]]:
        job = self.to_dict()
        return status_of(job), job

    def pods(self) -> list[PodState]:
        """Every existing pod, and those that existed while the job was followed, as last seen."""
        there = self._read_once("pods", self._existing_pods)
        return list({**self._followed, **there}.values())

    def _existing_pods(self) -> dict[str, PodState]:
        found = self._connection.loop.call(self._connection.jobs.pods(self._key))
        return {pod.uid: pod_state(pod) for pod in found}

    def events(self) -> list[dict[str, Any]]:
        """The events of the Job and its pods, as long as the cluster keeps them (usually an hour)."""
        return list(self._read_once("events", self._existing_events))

    def _existing_events(self) -> list[dict[str, Any]]:
        pods = None if self._once is None else set(self._read_once("pods", self._existing_pods))
        found = self._connection.loop.call(self._connection.jobs.events(self._key, pods))
        return [{"apiVersion": "v1", "kind": "Event", **event} for event in found]

    def _read_once(self, part: str, read: Callable[[], T]) -> T:
        """What was read before in the same `one_read`; what failed there fails again."""
        once = self._once
        if once is None:
            return read()
        if part not in once:
            try:
                once[part] = read()
            except BackendError as error:
                once[part] = error
        found: T | BackendError = once[part]
        if isinstance(found, BackendError):
            raise found
        return found

    def notes(self) -> list[str]:
        if self._notes is not None:
            return self._notes
        return [event["message"] for event in self.events() if is_note(event, self.uid)]

    def observe(self) -> Observation:
        from vcjob.cluster.network_policies import blocking_policies, master_labels
        from vcjob.diagnosis.collect import observe
        from vcjob.plugins.wait import CONTAINER_NAME
        from vcjob.sdk.cluster.observation import TAIL_LINES, add_output, event_observation

        status, document = self.read()
        job = Job(defaults.apply(document))
        observation = observe("cluster", job, status, self.pods(), time.time())
        observation.events = [event_observation(event) for event in self.events()]
        waited = [pod for pod in observation.pods if pod.container == CONTAINER_NAME and pod.failed]
        if waited:
            asked = blocking_policies(self._connection.jobs.client, self.namespace, master_labels(job))
            blocked_by = self._connection.loop.call(asked)
            for pod in waited:
                pod.blocked_by = blocked_by
        add_output(observation, lambda chosen: self.log_chunks(chosen, tail=TAIL_LINES, timestamps=True))
        return observation

    def why(self) -> list[Finding]:
        from vcjob.diagnosis.diagnose import diagnose

        observation = self.observe()
        observation.hang_findings = self.find_hangs(observation)
        return diagnose(observation)

    def find_hangs(self, observation: Observation) -> list[Finding]:
        from vcjob.diagnosis.collect import newest_attempts
        from vcjob.sdk.cluster.hangs import find_hangs, missing_recorder

        self._unread = ""
        if observation.phase != "Running":
            return []
        missing = missing_recorder(Job(defaults.apply(self._job)))
        if missing != "":
            self._unread = missing or ""
            return []
        pods = [pod for pod in newest_attempts(self.pods()) if pod.rank is not None and not pod.finished]
        reading = find_hangs(self._connection.jobs, observation, pods, self.namespace)
        found, self._unread = self._connection.loop.call(reading)
        return found

    def unread(self) -> str:
        return self._unread

    def source_text(self) -> str | None:
        """From the annotation that `kubectl apply` leaves; a Job that was created in another way has none."""
        text = (self.to_dict()["metadata"].get("annotations") or {}).get(_LAST_APPLIED)
        return None if text is None else str(text)

    def progress(self) -> Progress | None:
        from vcjob.sdk.cluster.progress import written_progress

        return written_progress(self._job, time.time())

    def timeline(self) -> Timeline:
        from vcjob.report.timeline import timeline_of
        from vcjob.sdk.cluster.observation import add_image_pulls

        pods = self.pods()
        add_image_pulls(pods, self.events())
        return timeline_of(self.name, self.created, self.status().finished, pods, time.time())

    def stacks(self, *, ranks: tuple[int, ...] = (), image: str | None = None) -> StackReport:
        from vcjob.cluster.client.pod_stacks import read_stacks

        pods = running_pods(self, ranks)
        return self._connection.loop.call(read_stacks(self._connection.jobs, pods, self.namespace, image))

    def usage(self, *, ranks: tuple[int, ...] = (), seconds: float = 1.0) -> UsageReport:
        from vcjob.cluster.client.pod_metrics import read_usage
        from vcjob.report.usage import with_step_rates
        from vcjob.sdk.cluster.progress import step_rates

        pods = running_pods(self, ranks)
        # A cluster measures every few seconds at most.
        time.sleep(max(0.0, self._usage_due - time.monotonic()))
        self._usage_due = time.monotonic() + seconds
        report = self._connection.loop.call(read_usage(self._connection.jobs, self._key, pods))
        return with_step_rates(report, step_rates(pods, self.progress()))

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
        sink = Sink(timestamps=timestamps)
        start = None if since is None else moment_of(since)
        if follow and chosen.previous:
            raise UserError(
                "a previous instance of a container has ended and cannot be followed",
                hint="leave -f or --previous out",
            )
        work: JobFollower | LogReader
        if follow:
            work = JobFollower(
                self._connection.jobs, self._key, chosen, sink, since=start, tail=tail, events=False
            )
        else:
            work = LogReader(self._connection.jobs, self._key, chosen, sink, since=start, tail=tail)
        running = self._connection.loop.start(work.run())
        progress = ProgressWriter(self._connection, self._key) if follow and record_progress else None
        try:
            while True:
                over = running.done()
                chunks = list(sink.take())
                if progress is not None:
                    progress.feed(chunks)
                for note in sink.take_notes():
                    if on_note is not None:
                        on_note(note)
                if chunks:
                    yield chunks
                elif over:
                    running.result()
                    return
                else:
                    yield _PAUSE
        finally:
            running.cancel()

    def follow(self, chosen: LogFilter | None = None) -> ClusterFollower:
        from vcjob.sdk.cluster.hang_watcher import HangWatcher

        sink = Sink()
        follower = JobFollower(self._connection.jobs, self._key, chosen or LogFilter(every_try=True), sink)
        self._notes = []
        self._followed = {}
        return ClusterFollower(
            self,
            follower,
            loop=self._connection.loop,
            sink=sink,
            notes=self._notes,
            pods=self._followed,
            progress=ProgressWriter(self._connection, self._key),
            hangs=HangWatcher(self._connection, self._key, self._notes.append),
        )

    # Waiting

    def wait(self, timeout: float | None = None, *, until: str | None = None, check: bool = False) -> str:
        phase = phase_named(until)
        return self._ended(self._connection.loop.call(self._wait_for(timeout, phase)), phase, check)

    async def wait_async(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - unlike asyncio.timeout, its error says what the job is doing
        *,
        until: str | None = None,
        check: bool = False,
    ) -> str:
        phase = phase_named(until)
        status = await self._connection.loop.call_async(self._wait_for(timeout, phase))
        return await asyncio.to_thread(self._ended, status, phase, check)

    async def _wait_for(self, seconds: float | None, until: Phase | None) -> Status:
        try:
            async with asyncio.timeout(seconds):
                job = await self._connection.jobs.wait_for(
                    self._key, lambda status: status.over or status.phase is until
                )
        except TimeoutError:
            now = status_of(await self._connection.jobs.job(self.name, self.namespace, self.uid))
            raise WaitTimeout(f"the job {self.name!r} is still {now.phase} after {seconds:g} s") from None
        except NoSuchJob:
            raise JobFailed(f"the job {self.name!r} was deleted before its end", handle=self) from None
        self._job, self._fresh_until = job, time.monotonic() + _FRESH_SECONDS
        return status_of(job)

    def wait_for_command(self, timeout: float = 10.0) -> None:
        if self._command is not None:
            self._connection.loop.call(self._connection.jobs.wait_for_command(self._command, timeout))

    # Actions

    def stop(self, *, now: bool = False) -> None:
        """End it: its pods get their grace period, or one second with `now`."""
        if now and not self.status().over:
            # Before the controller deletes the pods: a kubelet that waits already may not shorten the period.
            self._kill()
        self._act("stop")

    def exec(
        self,
        command: Sequence[str],
        *,
        rank: int | None = None,
        task: str | None = None,
        index: int | None = None,
        container: str | None = None,
    ) -> int:
        from vcjob.cluster.client.pod_exec import run_in_pod
        from vcjob.sdk.cluster.terminal import raw_terminal, terminal_size

        pod, chosen = choose_container(self, rank, task, index, container)
        with raw_terminal() as tty:
            return self._connection.loop.call(
                run_in_pod(
                    self._connection.jobs,
                    pod.name,
                    self.namespace,
                    chosen.name,
                    command,
                    tty=tty,
                    size=terminal_size,
                )
            )

    def discard_unserved(self) -> bool:
        return self._connection.loop.call(self._connection.jobs.delete_unserved(self._key))

    def delete(self) -> None:
        """Delete it, with its pods and their logs, and wait until they are deleted."""
        self._connection.loop.call(self._connection.jobs.delete(self._key))

    def _send(self, verb: str) -> None:
        self._command = self._connection.loop.call(self._connection.jobs.send(self._key, ACTIONS[verb]))

    def _kill(self) -> None:
        self._connection.loop.call(self._connection.jobs.kill_pods(self._key))
