"""Taking over from a ground that died: what it may have done without anybody's knowing."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.decision_context import ACTIVE
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.task_state import mark_begun, next_attempt
from vcjob.spec.job import Job


def assume_created(status: Status, job: Job) -> Status:
    """A Job of which nothing is written yet, but for which things are there that are made before the pods: any of
    them may have been made."""
    tasks = {
        task.name: mark_begun(status.memory(task.name), IndexSet.span(0, task.replicas))
        for task in job.spec.tasks
    }
    return msgspec.structs.replace(status, tasks={**status.tasks, **tasks})


def recover(status: Status, observed: Observed) -> Status:
    """The status as one who takes over goes on with it: call it once, with all pods in view.

    A pod that was to be made and is not there may have been made and be gone, and nobody would know. So its
    place goes on with the next attempt: there are never two pods of one attempt.
    """
    if status.phase not in ACTIVE:
        return status  # nothing is made for it, and what a resumed job makes is of the next attempt anyway
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
    """The same for one pod: it was asked for, nobody heard the answer, and it is not there."""
    memory = status.memory(task)
    if memory.attempts.of(index) != attempt or index in memory.seen:
        return status
    return msgspec.structs.replace(
        status, tasks={**status.tasks, task: next_attempt(memory, IndexSet.of((index,)))}
    )
