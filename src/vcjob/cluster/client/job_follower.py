"""Follows one Job: its state, pods, events and the logs of all its ranks, until it ends.

Runs on the event loop of a `LoopThread`; the caller's thread takes the news from `Seen` and the log lines from the
`Sink`. Errors of the API server are raised from `run`, translated.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing

from vcjob.cluster.client.container_log import ContainerLog, Watched
from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient, JobKey
from vcjob.cluster.client.log_source import Moment, Sink, containers_of
from vcjob.cluster.client.pod_view import POD_VIEWS, PodView, belongs_to, newest_instance
from vcjob.kube.api.resources import EVENTS, Document
from vcjob.kube.controller.watch import Snapshot, follow
from vcjob.kube.errors import Forbidden
from vcjob.lifecycle.status import FINAL, Phase, Status
from vcjob.plan.names import JOB_NAME
from vcjob.report.logs import LogFilter

#: Logs that are followed at the same time; each is a connection.
MOST_STREAMS = 500
#: How long to wait for the pods of a finished Job to end; those of a lost node never do.
_PODS_END_SECONDS = 45.0


class Seen:
    """News for the caller's thread: the latest Job, changed pods, new events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._job: Document | None = None
        self._pods: dict[str, PodView | None] = {}
        self._events: list[Document] = []

    def put_job(self, job: Document) -> None:
        with self._lock:
            self._job = job

    def put_pod(self, uid: str, pod: PodView | None) -> None:
        with self._lock:
            self._pods[uid] = pod

    def put_event(self, event: Document) -> None:
        with self._lock:
            self._events.append(event)

    def take(self) -> tuple[Document | None, dict[str, PodView | None], list[Document]]:
        """What is new: the Job, pods by uid (None: deleted), events."""
        with self._lock:
            news = self._job, self._pods, self._events
            self._job, self._pods, self._events = None, {}, []
        return news


class JobFollower:
    """`run` it; it ends when the Job is over or deleted and everything was read. A suspended Job may be resumed.

    The handle and the follower of the SDK run it on the loop of their connection and read its sink in their own
    thread. Errors of the API are translated as in `error_messages`.
    """

    def __init__(
        self,
        jobs: JobClient,
        key: JobKey,
        choice: LogFilter,
        sink: Sink,
        *,
        since: Moment | None = None,
        tail: int | None = None,
        events: bool = True,
    ) -> None:
        """`events`: watch the Job's events too."""
        self._jobs = jobs
        self._key = key
        self._choice = choice
        self._sink = sink
        self._since = since
        self._tail = tail
        self._events = events
        self.seen = Seen()
        self.deleted = False
        self._quiet = False  # the Job is over, suspended or deleted
        self._quiet_since = 0.0
        self._synced = False
        self._watched: dict[str, Watched] = {}
        self._readers: set[asyncio.Task[None]] = set()
        self._left_out = 0
        self._news = asyncio.Event()

    async def run(self) -> None:
        watches: list[asyncio.Task[None]] = [
            asyncio.create_task(work()) for work in (self._watch_job, self._watch_pods)
        ]
        if self._events:
            watches.append(asyncio.create_task(self._watch_events()))
        news: asyncio.Task[None] | None = None
        try:
            while not self._ended():
                self._news.clear()
                news = asyncio.create_task(self._wait_for_news())
                done, _ = await asyncio.wait(
                    {news, *watches, *self._readers}, timeout=1.0, return_when=asyncio.FIRST_COMPLETED
                )
                news.cancel()
                for task in done - {news}:
                    with translate_api_errors(self._jobs.config, "read logs", self._key.namespace):
                        task.result()
                    self._readers.discard(task)
                    if task in watches:
                        watches.remove(task)
        finally:
            tasks = [*watches, *self._readers, *([news] if news else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._sink.wake()

    async def _wait_for_news(self) -> None:
        await self._news.wait()

    def _ended(self) -> bool:
        if not self._quiet or not self._synced:
            return False
        if not self._readers and all(watched.over for watched in self._watched.values()):
            return True
        return asyncio.get_running_loop().time() > self._quiet_since + _PODS_END_SECONDS

    def _notify(self) -> None:
        self._news.set()
        self._sink.wake()

    # The Job

    async def _watch_job(self) -> None:
        async with aclosing(self._jobs.watch_job(self._key)) as news:
            async for job in news:
                if job is None:
                    self.deleted = True
                    self._set_quiet(True)
                else:
                    self.seen.put_job(job)
                    self._set_quiet(_is_quiet(Status.readable(job.get("status"))))
                self._notify()

    def _set_quiet(self, quiet: bool) -> None:
        if quiet and not self._quiet:
            self._quiet_since = asyncio.get_running_loop().time()
        self._quiet = quiet

    # Its pods

    async def _watch_pods(self) -> None:
        labels = f"{JOB_NAME}={self._key.name}"
        with translate_api_errors(self._jobs.config, "watch pods", self._key.namespace):
            news = follow(self._jobs.client, POD_VIEWS, namespace=self._key.namespace, labels=labels)
            async with aclosing(news):
                async for step in news:
                    if isinstance(step, Snapshot):
                        there = {pod.uid for pod in step.items}
                        for uid in [uid for uid in self._watched if uid not in there]:
                            self._drop(uid)
                        for pod in sorted(step.items, key=lambda pod: (pod.rank is None, pod.rank or 0)):
                            self._put(pod, old=not self._synced)
                        self._synced = True
                    else:
                        for change in step.changes:
                            self._put(change.object, old=False)
                            if change.type == "DELETED":
                                self._drop(change.object.uid)
                    self._notify()

    def _put(self, pod: PodView, *, old: bool) -> None:
        if not belongs_to(pod, self._key.uid):
            return
        self.seen.put_pod(pod.uid, pod)
        watched = self._watched.get(pod.uid)
        if watched is not None:
            watched.put(pod)
            return
        watched = self._watched[pod.uid] = Watched(pod)
        if self._choice.takes(pod):
            for container in containers_of(pod, self._choice):
                self._read(watched, container, old)

    def _read(self, watched: Watched, container: str, old: bool) -> None:
        if len(self._readers) >= MOST_STREAMS:
            if not self._left_out:
                self._sink.note(
                    f"only {MOST_STREAMS} logs are followed at the same time; choose others with `vcjob logs --rank`"
                )
            self._left_out += 1
            return
        first = 0
        if old and not self._choice.every_try:
            newest = newest_instance(watched.pod.container(container))
            first = newest[0] if newest else 0
        log = ContainerLog(
            self._jobs.client,
            watched,
            container,
            self._sink,
            first=first,
            since=self._since if old else None,
            tail=self._tail if old else None,
        )
        self._readers.add(asyncio.create_task(log.run()))

    def _drop(self, uid: str) -> None:
        watched = self._watched.pop(uid, None)
        if watched is not None:
            watched.drop()
            self.seen.put_pod(uid, None)

    # Its events

    async def _watch_events(self) -> None:
        of_job = f"involvedObject.uid={self._key.uid}"
        try:
            news = follow(self._jobs.client, EVENTS, namespace=self._key.namespace, fields=of_job)
            async with aclosing(news):
                async for step in news:
                    found = step.items if isinstance(step, Snapshot) else [c.object for c in step.changes]
                    for event in found:
                        self.seen.put_event(event)
                    self._sink.wake()
        except Forbidden:
            pass  # a user who may not read events still sees the rest


def _is_quiet(status: Status) -> bool:
    return status.phase in FINAL or (status.phase is Phase.ABORTED and not status.suspended)
