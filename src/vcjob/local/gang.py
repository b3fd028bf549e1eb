"""The GPUs of pods that start together: all of them or none, and the wait until they are free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.step import CreatePods
from vcjob.local import gpus
from vcjob.local.loop import Loop
from vcjob.spec.job import Job

_RETRY = 0.5


class GpuGang:
    """While GPUs are missing, `observed.held` says why no pod is created; `changed` is called when they are there."""

    def __init__(
        self, job: Job, env: Mapping[str, str], observed: Observed, loop: Loop, changed: Callable[[], None]
    ) -> None:
        self._job = job
        self._observed = observed
        self._loop = loop
        self._changed = changed
        self._pool = gpus.GpuPool(gpus.list_gpus(env) if gpus.gpus_at_once(job) else [])
        self.of = self._pool.of
        self.give_back = self._pool.give_back

    def have(self, creations: Sequence[CreatePods], uid_of: Callable[[tuple[str, int, int]], str]) -> bool:
        """Have these pods what they need? If not, they are given it as soon as it is free."""
        wishes: dict[str, int] = {}
        for step in creations:
            task = self._job.task(step.task)
            count = gpus.gpus_of(task.pod_spec) if task else 0
            for index in step.indexes:
                wishes[uid_of((step.task, index, step.attempt))] = count
        if self._pool.take(wishes):
            return True
        needed, there = sum(wishes.values()), len(self._pool.devices)
        self._observed.held = Blocked(
            "InsufficientGPUs", f"the pods need {needed} GPUs at once; of the {there} here others hold some"
        )
        self._loop.after(_RETRY, lambda: self._again(wishes))
        return False

    def _again(self, wishes: dict[str, int]) -> None:
        if self._pool.take(wishes):
            self._observed.held = None
            self._changed()
        else:
            self._loop.after(_RETRY, lambda: self._again(wishes))
