"""One decision in progress: the inputs, and the status as it changes.

`decide` makes one for each decision and hands it to the modules that evaluate requests, policies and phases. They
change the status through its methods only, so that every status stays small enough to be stored.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.lifecycle.descriptions import shorten
from vcjob.lifecycle.observed import Command, Observed
from vcjob.lifecycle.rules import rules_of
from vcjob.lifecycle.status import Condition, Culprit, HistoryEntry, Phase, State, Status, TaskMemory
from vcjob.lifecycle.step import EmitEvent
from vcjob.lifecycle.task_state import TaskState
from vcjob.spec.job import Job

EventType: TypeAlias = Literal["Normal", "Warning"]

#: Phases in which pods are wanted.
ACTIVE = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})

#: Bounds of what a status keeps, so that it fits into one object of the API server whatever happens to a Job.
CONDITIONS_KEPT = 50
HISTORY_KEPT = 20
MESSAGE_BYTES = 2000


class DecisionContext:
    """The Job, the pods and the time of one decision, and the status that it leads to.

    Not reused: `decide` makes a new one each time. Times are epoch seconds."""

    def __init__(self, job: Job, status: Status, observed: Observed, now: float) -> None:
        self.job = job
        self.rules = rules_of(job)
        self.observed = observed
        self.now = now
        self.status = status
        self.events: list[EmitEvent] = []
        self.wake_at: float | None = None
        #: Set by whatever changes what is to be decided next: another pass follows.
        self.changed = True
        #: A policy that waits for its timeout may still act, so the Job must not end on its own.
        self.policy_is_waiting = False
        self.tasks: dict[str, TaskState] = {}
        #: Commands that are to be executed in this decision, the oldest last, and those that were.
        self.new_commands: list[Command] = []
        self.executed_commands: list[str] = []
        #: Why each Command that was rejected was.
        self.rejected_commands: list[str] = []

    @property
    def phase(self) -> Phase:
        return self.status.state.phase

    @property
    def live(self) -> bool:
        """Whether a pod of any attempt has not ended or is terminating; one of an unknown task always counts."""
        return (
            any(state.live for state in self.tasks.values())
            or not self.observed.groups.keys() <= self.tasks.keys()
        )

    def begin_pass(self) -> None:
        """Evaluate the pods again, with the status as it is now."""
        self.changed = self.policy_is_waiting = False
        self.wake_at = None
        self.update_tasks()

    def update_tasks(self) -> None:
        active = self.phase in ACTIVE
        for name, task in self.rules.tasks.items():
            groups = self.observed.groups.get(name, {})
            self.tasks[name] = TaskState(self.status.memory(name), groups, task.replicas, active)
        self.save_tasks({name: state.memory for name, state in self.tasks.items()})
        if active and self.status.handled:
            completed = {f"TaskCompleted/{name}" for name in self.tasks if self.is_completed(name)}
            self.update(handled=tuple(key for key in self.status.handled if key in completed))

    def is_completed(self, name: str) -> bool:
        """Whether all replicas of the task have succeeded."""
        replicas = self.rules.tasks[name].replicas
        return replicas > 0 and len(self.tasks[name].succeeded) >= replicas

    def update(self, **changes: object) -> None:
        """Change fields of the status; the status stays the same object where nothing differs."""
        status = self.status
        for name, value in changes.items():
            if getattr(status, name) != value:
                self.status = msgspec.structs.replace(status, **changes)
                return

    def save_tasks(self, memories: dict[str, TaskMemory]) -> None:
        known = self.status.tasks
        changed = {
            name: memory
            for name, memory in memories.items()
            if (before := known.get(name)) is not memory and before != memory
        }
        if changed:
            self.status = msgspec.structs.replace(self.status, tasks={**known, **changed})

    def enter_phase(
        self, phase: Phase, reason: str, message: str, type: EventType = "Normal", event_reason: str = ""
    ) -> None:
        """Enter a phase and emit an event about it, with the same reason unless `event_reason` is given."""
        state = State(phase, reason, shorten(message, MESSAGE_BYTES), self.now)
        conditions = (*self.status.conditions, Condition(phase, self.now))[-CONDITIONS_KEPT:]
        self.update(state=state, conditions=conditions)
        self.changed = True
        self.emit(
            type, event_reason or reason or str(phase), f"{phase}: {message}" if message else str(phase)
        )

    def end(self, phase: Phase, reason: str, message: str, culprit: Culprit | None = None) -> None:
        """Enter a phase in which nothing runs any more. Pods that still live are killed, which is a full kill."""
        began = self.status.running_since
        self.update(
            finished=self.now,
            running_duration=None if began is None else max(0.0, self.now - began),
            version=self.status.version + (1 if self.phase in ACTIVE and self.live else 0),
            restarting=None,
            culprit=culprit,
            holding={},
        )
        self.enter_phase(phase, reason, message, "Warning" if phase is Phase.FAILED else "Normal")

    def emit(self, type: EventType, reason: str, message: str) -> None:
        self.events.append(EmitEvent(type, reason, shorten(message, MESSAGE_BYTES)))

    def wake_by(self, at: float) -> None:
        """Decide again at this time at the latest."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def add_history(self, entry: HistoryEntry) -> None:
        """Add an entry; the oldest entries are dropped."""
        entry = msgspec.structs.replace(entry, message=shorten(entry.message, MESSAGE_BYTES))
        self.update(history=(*self.status.history, entry)[-HISTORY_KEPT:])
