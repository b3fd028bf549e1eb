"""Writing a Job's status: a patch, only on change, never over a change of somebody else's."""

from __future__ import annotations

import msgspec

from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.cluster.controller.objects.merge_patch import merge_patch
from vcjob.cluster.resources import PARTIAL_JOBS
from vcjob.kube.api.client import Client
from vcjob.kube.errors import Conflict, NotFound
from vcjob.lifecycle.status import Condition, Phase, State, Status

#: Fields that only count: losing the latest of them costs nothing, for the pods still show it.
_COUNTS = frozenset(
    {"state", "tasks", "task_counts", "pending", "running", "succeeded", "failed", "terminating", "unknown",
     "min_available"}
)  # fmt: skip
_UNDER_WAY = ("running", "succeeded", "failed", "terminating", "unknown", "min_available")
_REST = tuple(name for name in Status.__struct_fields__ if name not in _COUNTS)

#: As the shape in a status: the Job was refused and never ran.
REFUSED = "refused"


class Outdated(Exception):
    """The Job changed in between; what was decided rests on an old view."""


def is_urgent(old: Status, new: Status) -> bool:
    """Whether `new` says more than counters and words do."""
    if old.state.phase != new.state.phase or old.state.since != new.state.since:
        return True
    if any(getattr(old, name) != getattr(new, name) for name in _REST):
        return True
    return any(
        memory.attempts != old.memory(task).attempts
        or memory.begun != old.memory(task).begun
        or len(memory.evictions) > len(old.memory(task).evictions)
        for task, memory in new.tasks.items()
    )


def only_begun(first: Status) -> bool:
    """Whether a Job's first status says no more than that it has begun. Then it can wait for company: the objects
    that are made before the pods say so, too, to whoever takes over."""
    return first.phase is Phase.PENDING and not (
        first.version
        or first.retry_count
        or first.history
        or first.commands
        or first.handled
        or first.holding
        or any(memory.attempts.groups or memory.evictions for memory in first.tasks.values())
    )


def only_waits(old: Status, new: Status) -> bool:
    """Whether nothing is new but how many pods wait to run, for no reason that they would give."""
    if (old.state.phase, old.state.reason) != (new.state.phase, new.state.reason):
        return False
    return all(getattr(old, name) == getattr(new, name) for name in _UNDER_WAY)


async def write_status(client: Client, entry: JobState, status: Status) -> None:
    """Write it, or raise Outdated with the entry brought up to date."""
    assert entry.lean is not None
    meta = entry.lean.metadata
    patch = merge_patch(entry.status_document(), status.to_kube())
    if not patch:
        entry.status = entry.saved = status
        entry.unsaved = None
        return
    guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    try:
        lean = await client.patch(
            PARTIAL_JOBS,
            meta.name,
            {"metadata": guard, "status": patch},
            meta.namespace,
            subresource="status",
        )
    except NotFound as error:
        entry.lose()
        raise Outdated from error
    except Conflict as error:
        await read_again(client, entry)
        raise Outdated from error
    entry.wrote(lean, status)


async def read_again(client: Client, entry: JobState) -> None:
    """Read the Job as it stands at the server now. What was known may lie ahead of it, as after a restored
    backup; unless the watch brought that just now."""
    before = entry.version
    try:
        lean = await client.get(PARTIAL_JOBS, entry.name, entry.namespace)
    except NotFound:
        entry.lose()
        return
    if lean.metadata.uid == entry.uid:
        entry.take(lean, even_if_older=entry.version == before)
    else:
        entry.lose()  # deleted, and made anew under its name


def failed_status(status: Status, reason: str, message: str, now: float) -> Status:
    """The status of a Job that is not run at all."""
    return msgspec.structs.replace(
        status,
        state=State(Phase.FAILED, reason, message, now),
        conditions=(*status.conditions, Condition(Phase.FAILED, now)),
        finished=now,
        shape=REFUSED,
    )
