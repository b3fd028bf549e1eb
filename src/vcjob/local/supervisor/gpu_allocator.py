"""Allocates GPUs to pods that start together, all of them or none, and waits until they are free.

The supervisor asks before it creates pods. Which GPUs exist, and which of them other jobs have claimed, is known to
`machine.gpus`. If some are missing, nothing is allocated and the request is repeated until they are free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.step import CreatePods
from vcjob.local.machine import gpus
from vcjob.local.machine.loop import Loop, Timer
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

_RETRY = 0.5


class GpuAllocator:
    """Used by the supervisor before it creates pods.

    While GPUs are missing, `observed.held` has the reason; `changed` is called when they have become free.
    """

    def __init__(
        self, job: Job, env: Mapping[str, str], observed: Observed, loop: Loop, changed: Callable[[], None]
    ) -> None:
        self._job = job
        self._observed = observed
        self._loop = loop
        self._changed = changed
        self._pool = gpus.GpuPool(gpus.list_gpus(env) if gpus.gpus_at_once(job) else [])
        self._waiting: dict[str, int] = {}
        self._retry: Timer | None = None
        self.of = self._pool.of
        self.give_back = self._pool.give_back

    def allocate(
        self, creations: Sequence[CreatePods], uid_of: Callable[[tuple[str, int, int]], str]
    ) -> bool:
        """Allocate what these pods need. False if it is not free: it is allocated as soon as it is."""
        requests: dict[str, int] = {}
        for step in creations:
            task = self._job.task(step.task)
            count = gpus.gpus_of(task.pod_spec) if task else 0
            for index in step.indexes:
                requests[uid_of((step.task, index, step.attempt))] = count
        for stale in self._waiting.keys() - requests.keys():
            self._pool.give_back(
                stale
            )  # the job was restarted while it waited: those pods will never be created
        self._waiting = requests
        if self._pool.take(requests):
            return True
        needed, existing = sum(requests.values()), len(self._pool.devices)
        plural = "GPU" if needed == 1 else "GPUs"
        self._observed.held = Blocked(
            reasons.INSUFFICIENT_GPUS,
            f"the pods need {needed} {plural} at once, and other jobs use some of the {existing} on this machine",
        )
        if self._retry is None or not self._retry.waiting:
            self._retry = self._loop.after(_RETRY, self._again)
        return False

    def _again(self) -> None:
        if self._pool.take(self._waiting):
            self._observed.held = None
            self._changed()
        else:
            self._retry = self._loop.after(_RETRY, self._again)
