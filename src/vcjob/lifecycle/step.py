"""What a ground is asked to do. Every step is idempotent and names index ranges, never single objects.

A ground writes the status first, then does the steps in the order given. A step that was done, or that a
crash cut off, is simply given again as long as what the ground observes still asks for it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from vcjob.lifecycle.indexset import IndexSet


class CreatePods(msgspec.Struct, frozen=True):
    """Create these pods, unless they are there or being created. One version, attempt and retry count for all."""

    task: str
    indexes: IndexSet
    attempt: int
    version: int
    retries: int


class KillPods(msgspec.Struct, frozen=True):
    """Delete these pods of this attempt, each with its own grace period; pods that are gone are fine."""

    task: str
    indexes: IndexSet
    attempt: int
    reason: str


class FailPods(msgspec.Struct, frozen=True):
    """Let these pods end as Failed with their logs kept (on a cluster: a pod deadline of 1 s)."""

    task: str
    indexes: IndexSet
    attempt: int
    reason: str


class DeleteCommand(msgspec.Struct, frozen=True):
    """Delete this Command object: what it asked for is recorded in the status."""

    uid: str


class EmitEvent(msgspec.Struct, frozen=True):
    """Tell users. The only step that is given once: a crash may lose it."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class DeleteJob(msgspec.Struct, frozen=True):
    """Its time to live after the end is over."""


Step = CreatePods | KillPods | FailPods | DeleteCommand | EmitEvent | DeleteJob
