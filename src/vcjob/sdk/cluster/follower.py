"""A job of a cluster while it runs: log lines, pods and status. Created by `ClusterHandle.follow`.

A `JobFollower` reads on the loop's thread; this object hands what it has seen to the caller's thread. A Job that is
deleted while it is followed is JobFailed.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from vcjob.cluster.client.job_follower import JobFollower
from vcjob.cluster.client.log_source import Sink
from vcjob.cluster.client.loop_thread import LoopThread
from vcjob.errors import JobFailed
from vcjob.report.logs import Chunk
from vcjob.report.podstate import PodState
from vcjob.sdk.cluster.pods import pod_state
from vcjob.sdk.cluster.progress import ProgressWriter
from vcjob.sdk.cluster.status import is_note, status_of

if TYPE_CHECKING:
    from vcjob.sdk.cluster.handle import ClusterHandle
    from vcjob.sdk.cluster.hang_watcher import HangWatcher


class ClusterFollower:
    """Follows a Job on a cluster; see `log_lines.Follower`.

    The cluster handle makes it. A `JobFollower` reads on the event loop, and this class takes over what it has read
    in the caller's thread. Its errors are raised by `poll`.
    """

    def __init__(
        self,
        handle: ClusterHandle,
        follower: JobFollower,
        *,
        loop: LoopThread,
        sink: Sink,
        notes: list[str],
        pods: dict[str, PodState],
        progress: ProgressWriter,
        hangs: HangWatcher,
    ) -> None:
        """`notes` and `pods` (by uid) belong to the handle and are filled here."""
        job = handle.to_dict()
        self.status = status_of(job)
        self.pods: list[PodState] = []
        self.ended = False
        self._handle = handle
        self._follower = follower
        self._sink = sink
        self._job = job
        self._notes = notes
        self._by_uid = pods
        self._progress = progress
        self._hangs = hangs
        self._shown_events: set[str] = set()
        self._running = loop.start(follower.run())

    def poll(self) -> list[Chunk]:
        over = self._running.done()
        job, pods, events = self._follower.seen.take()
        self._job = job or self._job
        self.status = status_of(self._job)
        for uid, pod in pods.items():
            if pod is not None:
                self._by_uid[uid] = pod_state(pod)
            elif uid in self._by_uid:
                self._by_uid[uid] = _gone(self._by_uid[uid])
        if pods:
            self.pods = list(self._by_uid.values())
        self._take_notes(events)
        self._hangs.poll(self._job, self.status, self.pods)
        chunks = list(self._sink.take())
        self._progress.feed(chunks)
        if over and not chunks:
            self.ended = True
            self._running.result()
            if self._follower.deleted:
                raise JobFailed(f"the job {self._handle.name!r} was deleted before its end")
        return chunks

    def _take_notes(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if is_note(event, self._handle.uid) and event["metadata"]["uid"] not in self._shown_events:
                self._shown_events.add(event["metadata"]["uid"])
                self._notes.append(event["message"])
        self._notes += self._sink.take_notes()

    def has_trouble(self) -> bool:
        return False

    def wait(self) -> None:
        if not self.ended:
            self._sink.wait(0.2)

    def close(self) -> None:
        self._running.cancel()


def _gone(pod: PodState) -> PodState:
    """A pod that no longer exists: its containers have ended."""
    if pod.finished:
        return pod
    return msgspec.structs.replace(
        pod, phase="Failed", deleted_at=pod.deleted_at or time.time(), finished_at=time.time()
    )
