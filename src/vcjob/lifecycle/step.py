"""The steps of a decision. Every step is idempotent and names index ranges, never single objects.

A backend writes the status first, then executes the steps in order. A step that a crash interrupted is part of the
next decision again, as long as the observed pods still require it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from vcjob.lifecycle.indexset import IndexSet


class CreatePods(msgspec.Struct, frozen=True):
    """Create these pods, unless they exist or are being created. One version, attempt and retry count for all.

    A backend may create a part of them; the next decision has the others.
    """

    task: str
    indexes: IndexSet
    attempt: int
    version: int
    retries: int


class KillPods(msgspec.Struct, frozen=True):
    """Delete these pods of this attempt, each with its own grace period; pods that no longer exist are ignored.

    It cannot be undone, so the status is written before.
    """

    task: str
    indexes: IndexSet
    attempt: int
    reason: str


class FailPods(msgspec.Struct, frozen=True):
    """Let these pods end as Failed with their logs kept (on a cluster: a pod deadline of 1 s).

    For pods whose wait for the master has timed out, and which would otherwise restart it without end.
    """

    task: str
    indexes: IndexSet
    attempt: int
    reason: str


class DeleteCommand(msgspec.Struct, frozen=True):
    """Delete this Command object: the status records that it was executed.

    The status is written before, so that a Command whose deletion fails is not executed again.
    """

    uid: str


class EmitEvent(msgspec.Struct, frozen=True):
    """Emit an event for users. The only step that is not repeated: a crash may lose it.

    The backends write it to the events of the Job.
    """

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class DeleteJob(msgspec.Struct, frozen=True):
    """Delete the Job: its `ttlSecondsAfterFinished` has passed.

    For the controller; the local backend deletes expired runs from its store.
    """


Step = CreatePods | KillPods | FailPods | DeleteCommand | EmitEvent | DeleteJob
