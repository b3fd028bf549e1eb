"""Keeps the event loop free: CPU-heavy work on large Jobs runs in a few threads.

Lease renewal, health checks, the webhook and all other Jobs share one event loop, so nothing may hold it for more than
about 50 ms. The functions that are passed here are pure, or work on data that nobody changes meanwhile. What a decision
costs is known from the sizes of what it reads; for what these do not show, the last decision about the Job is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

from vcjob.cluster.controller.cache.job_state import JobState

T = TypeVar("T")
#: A Job is large if its spec has this many bytes, or if it has this many pods, tasks, or labels and annotations. Below,
#: admission, planning and one decision take a few milliseconds each, and at most 40 for the most expensive Jobs.
LARGE_SPEC_BYTES, LARGE_PODS, LARGE_TASKS, LARGE_METADATA = 16 * 1024, 5_000, 100, 1_000
#: A status that is read may hold thousands of sets of high indexes in few bytes each.
LARGE_READ_STATUS_BYTES, LARGE_WRITTEN_STATUS_BYTES = 16 * 1024, 256 * 1024
#: A decision reads the whole status, the groups of pods of one attempt and the evictions of every task, and compares
#: pods with policies.
LARGE_DECIDED_STATUS_BYTES, LARGE_GROUPS, LARGE_PODS_AND_POLICIES = 64 * 1024, 200, 100_000
#: After a decision that took this much CPU time, the next ones are made in a thread, whatever the sizes.
SLOW_SECONDS = 0.02
#: From this many pods on, one reconcile can keep a worker for seconds: with requests, where not with CPU time.
MANY_PODS = 1_000
#: What remains of a measured duration after each faster decision: slow ones may come only now and then.
_REMAINING = 0.9
#: Threads in use at once: more would only compete for the interpreter.
_THREADS = 2


class Offload:
    """Runs functions for the reconciler, in a thread where the Job is large. Errors are raised as they are.

    One instance serves all workers, so that the event loop, and with it the Lease, is not held up by one large Job.
    """

    def __init__(self) -> None:
        self._slots = asyncio.Semaphore(_THREADS)

    async def run(self, large: bool, function: Callable[..., T], *args: Any, **options: Any) -> T:
        if not large:
            return function(*args, **options)
        async with self._slots:
            return await asyncio.to_thread(function, *args, **options)

    async def run_frozen(self, state: JobState, large: bool, function: Callable[..., T], *args: Any) -> T:
        """The same for a function that reads the Job's pods: reports about them wait until a thread is done. The caller
        checks afterwards whether the Job was changed or deleted meanwhile."""
        if not large:
            return function(*args)
        state.deferred = []
        try:
            return await self.run(True, function, *args)
        finally:
            deferred, state.deferred = state.deferred, None
            for report in deferred:
                report()

    async def run_decision(self, state: JobState, function: Callable[..., T], *args: Any) -> T:
        """Run a decision about the Job and measure it; in a thread where it may take long."""

        def measured() -> T:
            began = time.thread_time()
            try:
                return function(*args)
            finally:
                spent = time.thread_time() - began
                state.decision_seconds = max(spent, state.decision_seconds * _REMAINING)

        return await self.run_frozen(state, is_expensive(state), measured)


def occupies_worker(state: JobState) -> bool:
    """Whether a reconcile of the Job may keep a worker for long, whatever the size of its spec."""
    wanted = state.job.replicas if state.job is not None else 0
    return max(wanted, len(state.observed.pods)) >= MANY_PODS or state.decision_seconds > SLOW_SECONDS


def is_expensive(state: JobState) -> bool:
    """Whether a decision about the Job may take long."""
    resource = state.resource
    if state.decision_seconds > SLOW_SECONDS or resource is None:
        return True
    if len(resource.spec) >= LARGE_SPEC_BYTES or len(resource.status) >= LARGE_DECIDED_STATUS_BYTES:
        return True
    job, status = state.current()
    if len(job.tasks) >= LARGE_TASKS:
        return True
    groups = sum(map(len, state.observed.groups.values()))
    groups += sum([len(memory.attempts.groups) + len(memory.evictions) for memory in status.tasks.values()])
    policies = len(job.spec.policies) + sum([len(task.policies) for task in job.tasks])
    return groups >= LARGE_GROUPS or len(state.observed.pods) * policies >= LARGE_PODS_AND_POLICIES
