"""Which policy answers an event: those of the task before those of the job, the first that matches."""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.rules import Rules
from vcjob.spec.duration import seconds
from vcjob.spec.job import Policy

ANY = "*"
POD_FAILED, POD_EVICTED, POD_PENDING, UNKNOWN = "PodFailed", "PodEvicted", "PodPending", "Unknown"
TASK_COMPLETED, TASK_FAILED, JOB_UPDATED = "TaskCompleted", "TaskFailed", "JobUpdated"


class PolicyEvent(msgspec.Struct, frozen=True):
    """An event that holds: since when, of which task and pod, and all pods of which it holds indexes."""

    since: float
    name: str
    task: str = ""
    index: int | None = None
    attempt: int = 0
    indexes: IndexSet = EMPTY
    exit_code: int | None = None

    @property
    def key(self) -> str:
        """The name under which an event of a whole task or job is remembered."""
        return f"{self.name}/{self.task}"


class PolicyMatch(msgspec.Struct, frozen=True):
    """The policy that matches, whose it is, and when it is due."""

    policy: Policy
    owner: str
    due: float


def match_policy(rules: Rules, event: PolicyEvent) -> PolicyMatch | None:
    task = rules.tasks.get(event.task)
    for owner, policies in (
        (f"task {event.task}", task.policies if task else ()),
        ("the job", rules.policies),
    ):
        for policy in policies:
            if _matches(policy, event):
                # Without a timeout it is due whatever the clock of the pod's node says.
                due = event.since + seconds(policy.timeout) if policy.timeout else 0.0
                return PolicyMatch(policy, owner, due)
    return None


def _matches(policy: Policy, event: PolicyEvent) -> bool:
    events = policy.all_events
    if event.name == POD_PENDING and not policy.timeout:
        # Every pod is pending at first.
        return False
    if event.name in events or ANY in events:
        return True
    return event.name == POD_FAILED and policy.exit_code is not None and policy.exit_code == event.exit_code
