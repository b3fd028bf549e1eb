"""What the race sees of pods and Jobs, and when: one watch of each, the same for every contestant."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import msgspec

from bench.race.controllers.jobs import NAMESPACE
from vcjob.cluster.resources import JOBS
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import PODS
from vcjob.kube.controller.watch import Snapshot, follow


class _Labels(msgspec.Struct):
    job: str = msgspec.field(name="volcano.sh/job-name", default="")


class _PodMeta(Meta, rename="camel"):
    labels: _Labels = msgspec.field(default_factory=_Labels)


class _PodStatus(msgspec.Struct):
    phase: str = ""


class _Pod(msgspec.Struct):
    metadata: _PodMeta
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _State(msgspec.Struct):
    phase: str = ""


class _JobStatus(msgspec.Struct):
    state: _State = msgspec.field(default_factory=_State)


class _Job(msgspec.Struct):
    metadata: Meta
    status: _JobStatus | None = None


class Observer:
    """Pods by uid with their phase, Jobs by name with theirs, and the moment each Job's first pod came."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._synced = 0
        self.pods: dict[str, str] = {}
        self.jobs: dict[str, str] = {}
        self.first_pod: dict[str, float] = {}
        self.created = 0
        self.phases: Counter[str] = Counter()
        self.job_phases: Counter[str] = Counter()

    async def run(self) -> None:
        await asyncio.gather(self._follow_pods(), self._follow_jobs())

    async def until(self, holds: Callable[[], bool], seconds: float, what: str) -> float:
        """The moment at which `holds` is first seen to."""
        limit = time.monotonic() + seconds
        while not holds():
            self._changed.clear()
            try:
                async with asyncio.timeout(max(0.0, limit - time.monotonic())):
                    await self._changed.wait()
            except TimeoutError:
                raise TimeoutError(
                    f"{what}: not within {seconds:.0f} s; pods {dict(self.phases)}, Jobs {dict(self.job_phases)}"
                ) from None
        return time.monotonic()

    async def _follow_pods(self) -> None:
        resource = PODS.read_as(_Pod)
        async for step in follow(self._client, resource, namespace=NAMESPACE, on_error=lambda error: None):
            if isinstance(step, Snapshot):
                self._sync()
                continue
            for change in step.changes:
                self._pod(change.object, gone=change.type == "DELETED")
            self._changed.set()

    def _pod(self, pod: _Pod, *, gone: bool) -> None:
        uid, phase = pod.metadata.uid, pod.status.phase
        old = self.pods.pop(uid, None)
        if old is not None:
            self.phases[old] -= 1
        elif not gone:
            self.created += 1
            self.first_pod.setdefault(pod.metadata.labels.job, time.monotonic())
        if not gone:
            self.pods[uid] = phase
            self.phases[phase] += 1

    async def _follow_jobs(self) -> None:
        resource = JOBS.read_as(_Job)
        async for step in follow(self._client, resource, namespace=NAMESPACE, on_error=lambda error: None):
            if isinstance(step, Snapshot):
                self._sync()
                continue
            for change in step.changes:
                job = change.object
                old = self.jobs.pop(job.metadata.name, None)
                if old is not None:
                    self.job_phases[old] -= 1
                if change.type != "DELETED":
                    phase = job.status.state.phase if job.status else ""
                    self.jobs[job.metadata.name] = phase
                    self.job_phases[phase] += 1
            self._changed.set()

    def _sync(self) -> None:
        self._synced += 1
        if self._synced == 2:
            self.ready.set()
