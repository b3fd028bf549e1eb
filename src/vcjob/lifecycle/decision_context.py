"""One decision in the making: what is given, and the status as it becomes."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.rules import rules_of
from vcjob.lifecycle.status import Condition, Culprit, HistoryEntry, Phase, State, Status, TaskMemory
from vcjob.lifecycle.step import EmitEvent
from vcjob.lifecycle.task_state import TaskState
from vcjob.spec.job import Job

EventType: TypeAlias = Literal["Normal", "Warning"]

#: Phases in which pods are wanted.
ACTIVE = frozenset({Phase.PENDING, Phase.RUNNING, Phase.RESTARTING})

#: The status must fit into one object of the API server, whatever happens to a job.
CONDITIONS_KEPT = 50
HISTORY_KEPT = 20


class DecisionContext:
    def __init__(self, job: Job, status: Status, observed: Observed, now: float) -> None:
        self.job = job
        self.rules = rules_of(job)
        self.observed = observed
        self.now = now
        self.status = status
        self.events: list[EmitEvent] = []
        self.wake_at: float | None = None
        #: An action or a phase changed what is to be decided next.
        self.changed = True
        self.tasks: dict[str, TaskState] = {}

    @property
    def phase(self) -> Phase:
        return self.status.state.phase

    @property
    def live(self) -> bool:
        """Whether a pod of any attempt has not ended or is still going; one of no task of ours always is."""
        return (
            any(state.live for state in self.tasks.values())
            or not self.observed.groups.keys() <= self.tasks.keys()
        )

    def update(self, **changes: object) -> None:
        if any(getattr(self.status, name) != value for name, value in changes.items()):
            self.status = msgspec.structs.replace(self.status, **changes)

    def update_tasks(self) -> None:
        """Count the pods anew and remember what they show."""
        active = self.phase in ACTIVE
        for name, task in self.rules.tasks.items():
            groups = self.observed.groups.get(name, {})
            self.tasks[name] = TaskState(self.status.memory(name), groups, task.replicas, active)
        self.save_tasks({name: state.memory for name, state in self.tasks.items()})

    def save_tasks(self, memories: dict[str, TaskMemory]) -> None:
        known = self.status.tasks
        changed = {name: memory for name, memory in memories.items() if memory != known.get(name)}
        if changed:
            self.status = msgspec.structs.replace(self.status, tasks={**known, **changed})

    def enter_phase(
        self, phase: Phase, reason: str, message: str, type: EventType = "Normal", event_reason: str = ""
    ) -> None:
        """Enter a phase. The event about it has the same reason unless it is `event_reason` another."""
        state = State(phase, reason, message, self.now)
        conditions = (*self.status.conditions, Condition(phase, self.now))[-CONDITIONS_KEPT:]
        self.update(state=state, conditions=conditions)
        self.changed = True
        self.emit(
            type, event_reason or reason or str(phase), f"{phase}: {message}" if message else str(phase)
        )

    def end(self, phase: Phase, reason: str, message: str, culprit: Culprit | None = None) -> None:
        """Enter a phase in which nothing runs any more. What still lives is killed, and that counts as a kill."""
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
        self.events.append(EmitEvent(type, reason, message))

    def wake_by(self, at: float) -> None:
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

    def add_history(self, run: HistoryEntry) -> None:
        self.update(history=(*self.status.history, run)[-HISTORY_KEPT:])
