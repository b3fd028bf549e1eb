"""Which policy applies to an event: those of the task before those of the Job, the first that matches.

Called by `policy_actions`. Reads the rules of the Job only; whether the event holds is decided in `policy_events`.
"""

from __future__ import annotations

import msgspec

from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.lifecycle.rules import Rules
from vcjob.spec.duration import LONGEST, seconds
from vcjob.spec.job import Policy

ANY = "*"
POD_FAILED, POD_EVICTED, POD_PENDING, UNKNOWN = "PodFailed", "PodEvicted", "PodPending", "Unknown"
TASK_COMPLETED, TASK_FAILED, JOB_UPDATED = "TaskCompleted", "TaskFailed", "JobUpdated"


class PolicyEvent(msgspec.Struct, frozen=True):
    """An event that holds now: since when, for which task, its first pod, and all indexes for which it holds."""

    since: float
    name: str
    task: str = ""
    index: int | None = None
    attempt: int = 0
    indexes: IndexSet = EMPTY
    exit_code: int | None = None

    @property
    def key(self) -> str:
        """The name under which the status records an event of a whole task or Job."""
        return f"{self.name}/{self.task}"


class PolicyMatch(msgspec.Struct, frozen=True):
    """The policy that matches, its owner, and when its action is due."""

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
                # Without a timeout it is due at once, even if the clock of the pod's node is ahead.
                due = event.since + _seconds(policy.timeout) if policy.timeout else 0.0
                return PolicyMatch(policy, owner, due)
    return None


def _seconds(timeout: str) -> float:
    """Admission refuses a timeout that cannot be read; in a Job that another version started, it never ends."""
    try:
        return seconds(timeout)
    except ValueError:
        return LONGEST / 1e9


def _matches(policy: Policy, event: PolicyEvent) -> bool:
    events = policy.all_events
    if event.name == POD_PENDING and not policy.timeout:
        # Every pod is pending at first.
        return False
    if event.name in events or ANY in events:
        return True
    return event.name == POD_FAILED and policy.exit_code is not None and policy.exit_code == event.exit_code
