"""The status of a Job: Volcano's fields, and what vcjob remembers beyond them.

Everything that a decision needs and that pods cannot show any more stands here, so that a caller that
restarts loses nothing. Treat it as read-only; `msgspec.structs.replace` makes the next one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.pod import Failure
from vcjob.wellknown import reasons


class Phase(StrEnum):
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


#: The reason of a job that failed because a restart was asked for and no run was left.
MAX_RETRY_REACHED = reasons.MAX_RETRY_REACHED

#: The job is over and stays so.
FINAL = frozenset({Phase.COMPLETED, Phase.FAILED, Phase.TERMINATED})


class State(msgspec.Struct, frozen=True):
    """The phase, why (a CamelCase word and a sentence), and since when."""

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    since: float | None = None


class Condition(msgspec.Struct, frozen=True):
    """A phase that the job entered, and when."""

    phase: Phase
    at: float


class Eviction(msgspec.Struct, frozen=True):
    """Pods that were evicted, replaced, and do not run again yet."""

    at: float
    indexes: IndexSet


class TaskMemory(msgspec.Struct, frozen=True):
    """What is remembered of one task; the sets speak of each index's present attempt."""

    attempts: Attempts = Attempts()
    #: Pods that were there once: seen and gone means evicted.
    seen: IndexSet = EMPTY
    #: Never run again within this attempt, also when the pod is gone.
    succeeded: IndexSet = EMPTY
    failed: IndexSet = EMPTY
    #: Kept for a policy with a timeout: the replacements run, and it does not act.
    evictions: tuple[Eviction, ...] = ()
    #: Pods that may have been made: this is written down before the first of them is.
    begun: IndexSet = EMPTY
    #: Succeeded before the latest resume: their container restarts count no longer towards TaskFailed.
    kept: IndexSet = EMPTY


class Culprit(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pod that decided: which, and how its first failing container failed."""

    task: str
    index: int
    attempt: int = 0
    rank: int | None = None
    event: str = ""
    failure: Failure | None = None


class HistoryEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of the history: an action that ended attempts, what it hit and why."""

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
    #: Seconds from the first pod running to the end.
    running_duration: float | None = None
    conditions: tuple[Condition, ...] = ()

    tasks: dict[str, TaskMemory] = {}
    #: When the run under way began (a resumed job begins anew), first had enough pods, and was over.
    started: float | None = None
    running_since: float | None = None
    finished: float | None = None
    #: Who suspended it: "spec" (spec.suspend), "command", "policy"; "" when it is not.
    suspended_by: str = ""
    #: The restart under way: an entry like those of the history.
    restarting: HistoryEntry | None = None
    #: The pod that decided the end or the latest restart, where one did.
    culprit: Culprit | None = None
    history: tuple[HistoryEntry, ...] = ()
    #: uids of the Commands that were carried out, the newest last.
    commands: tuple[str, ...] = ()
    #: Tasks whose dependsOn was met in this version.
    ready_tasks: tuple[str, ...] = ()
    #: Events of tasks that were acted on and must not fire again ("TaskCompleted/worker").
    handled: tuple[str, ...] = ()
    #: Since when a task's event holds whose policy waits for its timeout.
    holding: dict[str, float] = {}
    #: The replicas and minAvailable that were last acted on: a difference is JobUpdated.
    shape: str = ""
    #: The digest of the part of the spec that may not change, as the Job was started: see `frozen_spec`.
    spec_digest: str = ""
    #: Entries of status.controlledResources that are not the lifecycle's own; the ground's to use.
    resources: dict[str, str] = {}

    @property
    def phase(self) -> Phase:
        return self.state.phase

    @property
    def over(self) -> bool:
        """Nothing will run any more."""
        return self.state.phase in FINAL

    @property
    def suspended(self) -> bool:
        """A user suspended it, and it waits to be resumed. By spec.suspend or a policy it is Aborted without that."""
        return self.state.phase is Phase.ABORTED and self.suspended_by == "command"

    @property
    def restarts(self) -> int:
        """How often it was started anew. `retry_count` also counts the restart that there was no run left for."""
        return self.retry_count - (self.state.reason == MAX_RETRY_REACHED)

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
        """The way back; a status that Volcano wrote, or none, is fine too."""
        from vcjob.lifecycle.status_codec import from_kube

        return from_kube(document or {})


_NOTHING = TaskMemory()
