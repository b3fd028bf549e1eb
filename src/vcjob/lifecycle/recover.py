"""Taking over after a crash: pods that the crashed backend may have created although no record says so.

Called by a backend once after its start, before the first `decide`.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import ACTIVE
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.task_state import mark_begun, next_attempt
from vcjob.spec.job import Job


def assume_created(status: Status, job: Job) -> Status:
    """The status of a Job that has none stored, but has objects that are created before its pods: any of its pods
    may have been created."""
    tasks = {
        task.name: mark_begun(status.memory(task.name), IndexSet.span(0, task.replicas))
        for task in job.spec.tasks
    }
    return msgspec.structs.replace(status, tasks={**status.tasks, **tasks})


def recover(status: Status, observed: Observed) -> Status:
    """The status with which a new process continues; call it once, when all pods are known.

    A pod that was to be created and does not exist may have been created and deleted in between. So its index
    continues with the next attempt: there are never two pods of one attempt.
    """
    if status.phase not in ACTIVE:
        return status  # no pod is created for it, and a resume starts the next attempt anyway
    tasks = dict(status.tasks)
    for name, memory in status.tasks.items():
        occupied = EMPTY
        for group in observed.groups.get(name, {}).values():
            occupied |= group.present
        unknown = memory.begun - memory.seen - memory.succeeded - memory.failed - occupied
        if unknown:
            tasks[name] = next_attempt(memory, unknown)
    return status if tasks == status.tasks else msgspec.structs.replace(status, tasks=tasks)


def skip_attempt(status: Status, task: str, index: int, attempt: int) -> Status:
    """The same for one pod whose creation got no response, and which does not exist."""
    memory = status.memory(task)
    if memory.attempts.of(index) != attempt or index in memory.seen:
        return status
    return msgspec.structs.replace(
        status, tasks={**status.tasks, task: next_attempt(memory, IndexSet.of((index,)))}
    )
