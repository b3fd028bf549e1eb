"""The status of a Job: Volcano's fields, and what vcjob remembers beyond them.

It holds everything that a decision needs and that pods may no longer show, so that a backend that restarts loses
nothing. Read-only: `msgspec.structs.replace` makes the next one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from vcjob.errors import UserError
from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.pod import Failure
from vcjob.wellknown import reasons


class Phase(StrEnum):
    """The phases of a Job, as Volcano names them; docs/semantics.md has the transitions.

    Part of the SDK: a phase compares equal to its name as text.
    """

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    FAILED = "Failed"


#: The reason of a Job that failed because a restart was requested and no run was left.
MAX_RETRY_REACHED = reasons.MAX_RETRY_REACHED

#: As the shape in a status: the Job was rejected and never ran.
REJECTED = "refused"

#: Phases that a Job never leaves.
FINAL = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})


class State(msgspec.Struct, frozen=True):
    """The phase, its reason and message, and since when.

    It is `status.state` of the Job object, which scripts and `vcjob status` read.
    """

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    since: float | None = None


class Condition(msgspec.Struct, frozen=True):
    """A phase that the Job entered, and when.

    Entries of `status.conditions`, oldest first.
    """

    phase: Phase
    at: float


class Eviction(msgspec.Struct, frozen=True):
    """Pods that were evicted and replaced, and whose replacements do not run yet.

    Kept in the status, so that a policy with a timeout still acts after the evicted pods are gone.
    """

    at: float
    indexes: IndexSet


class TaskMemory(msgspec.Struct, frozen=True):
    """What is recorded about one task; the sets refer to the current attempt of each index.

    Part of the status: pods may be deleted by anyone, and a new leader knows only this. Only decisions change it, by
    replacing it.
    """

    attempts: Attempts = Attempts()
    #: Pods that existed: one that was seen and no longer exists was evicted.
    seen: IndexSet = EMPTY
    #: Not run again in this attempt, even when the pod no longer exists.
    succeeded: IndexSet = EMPTY
    failed: IndexSet = EMPTY
    #: Kept for a policy with a timeout, which is cancelled when the replacements run.
    evictions: tuple[Eviction, ...] = ()
    #: Pods that may have been created: recorded before the first of them is.
    begun: IndexSet = EMPTY
    #: Succeeded before the latest resume: their container restarts count no longer towards TaskFailed.
    kept: IndexSet = EMPTY

    @property
    def index_sets(self) -> list[IndexSet]:
        evicted = [eviction.indexes for eviction in self.evictions]
        return [
            self.begun,
            self.seen,
            self.succeeded,
            self.failed,
            self.kept,
            *self.attempts.groups.values(),
            *evicted,
        ]


class Culprit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pod that caused an end or a restart, and how its first failing container failed.

    The decision names it; `diagnosis.explanation` may name another pod that failed before, with the finding.
    """

    task: str
    index: int
    attempt: int = 0
    rank: int | None = None
    event: str = ""
    failure: Failure | None = None
    #: The cause and the sentence of the diagnosis, where the backend has made one.
    cause: str = ""
    finding: str = ""


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the history: an action that ended attempts, on which pods, and why.

    Stored in the status, and shown to users. The number of entries is bounded; the oldest are dropped.
    """

    at: float
    action: str
    reason: str
    message: str = ""
    version: int = 0
    retry: int = 0
    #: What was restarted; empty for the whole job.
    task: str = ""
    indexes: str = ""
    culprit: Culprit | None = None


class Status(msgspec.Struct, frozen=True):
    """The status of a Job: Volcano's public fields first, then vcjob's own. Backends store it with `to_kube` and
    read it with `from_kube`; only `resources` is theirs to change."""

    state: State = State()
    min_available: int = 0
    task_counts: dict[str, dict[str, int]] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    #: Seconds from when enough pods were up to the end.
    running_duration: float | None = None
    conditions: tuple[Condition, ...] = ()

    tasks: dict[str, TaskMemory] = {}
    #: When the current run started (a resume starts a new one), first had enough pods, and ended.
    started: float | None = None
    running_since: float | None = None
    finished: float | None = None
    #: Who suspended it: "spec" (spec.suspend), "command", "policy"; "" when it is not.
    suspended_by: str = ""
    #: The restart in progress, in the form of a history entry.
    restarting: HistoryEntry | None = None
    #: The pod that caused the end or the latest restart, where one did.
    culprit: Culprit | None = None
    history: tuple[HistoryEntry, ...] = ()
    #: uids of the Commands that were executed, the newest last.
    commands: tuple[str, ...] = ()
    #: Tasks whose dependsOn was met in this version.
    ready_tasks: tuple[str, ...] = ()
    #: Events that held at a resume and must not fire again while they hold ("TaskCompleted/worker").
    handled: tuple[str, ...] = ()
    #: Since when an event of a whole task or Job holds whose policy waits for its timeout.
    holding: dict[str, float] = {}
    #: The replicas and minAvailable that were last acted on: a difference is JobUpdated.
    shape: str = ""
    #: The digest of the part of the spec that may not change, as the Job was started: see `frozen_spec`.
    spec_digest: str = ""
    #: Entries of status.controlledResources that are not the lifecycle's own, for the backend.
    resources: dict[str, str] = {}

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def over(self) -> bool:
        """Whether the phase is final."""
        return self.state.phase in FINAL

    @property
    def never_ran_here(self) -> bool:
        """It is over, and vcjob has never run it: Volcano did, or it was rejected."""
        return self.over and self.shape in ("", REJECTED)

    @property
    def suspended(self) -> bool:
        """Aborted by a Command, so a user is expected to resume it; not by spec.suspend or a policy."""
        return self.state.phase is Phase.ABORTED and self.suspended_by == "command"

    @property
    def restarts(self) -> int:
        """How often it was restarted. `retry_count` also counts the restart for which no run was left."""
        return self.retry_count - (self.state.reason == MAX_RETRY_REACHED)

    def up(self, replicas: int) -> int:
        """How many of its pods are as they should be: those that run or have succeeded; once the Job is complete, all that
        have not failed, because it needs no more of those that it ends."""
        if self.state.phase in (Phase.COMPLETING, Phase.COMPLETED):
            return max(replicas - self.failed, self.succeeded)
        return self.running + self.succeeded

    def memory(self, task: str) -> TaskMemory:
        return self.tasks.get(task) or _NOTHING

    def attempt(self, task: str, index: int) -> int:
        return self.memory(task).attempts.of(index)

    def to_kube(self) -> dict[str, Any]:
        """As the `status` of a Volcano Job."""
        from vcjob.lifecycle.status_codec import to_kube

        return to_kube(self)

    @classmethod
    def from_kube(cls, document: dict[str, Any] | None) -> Status:
        """The status from `to_kube`, from Volcano, or empty. Raises ValueError, TypeError or KeyError where it was
        edited into something that cannot be read."""
        from vcjob.lifecycle.status_codec import from_kube

        return from_kube(document or {})

    @classmethod
    def readable(cls, document: dict[str, Any] | None) -> Status:
        """As much of a stored status as can be read, for users: one Job whose status somebody edited must not hide others.
        Never raises."""
        from vcjob.lifecycle.status_codec import from_kube, public_part

        try:
            return from_kube(document or {})
        except (ValueError, TypeError, KeyError):
            return public_part(document or {})


_NOTHING = TaskMemory()


def phase_named(name: str | None) -> Phase | None:
    """The phase that a user names; UserError for an unknown one."""
    if name is None:
        return None
    try:
        return Phase(name)
    except ValueError:
        raise UserError(f"a job has no phase {name!r}", hint=f"the phases are: {', '.join(Phase)}") from None
