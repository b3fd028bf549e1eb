"""Which of a list of policies applies to an event: the first that matches.

`rules` makes one table for each list and asks those of the task before those of the Job. Whether the event holds is
decided in `policy_events`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from vcjob.lifecycle.earliest_index import EarliestIndex
from vcjob.lifecycle.indexset import EMPTY, IndexSet
from vcjob.spec.duration import LONGEST, seconds
from vcjob.spec.job import Policy

ANY = "*"
POD_FAILED, POD_EVICTED, POD_PENDING, UNKNOWN = "PodFailed", "PodEvicted", "PodPending", "Unknown"
TASK_COMPLETED, TASK_FAILED, JOB_UPDATED = "TaskCompleted", "TaskFailed", "JobUpdated"


class PolicyEvent(msgspec.Struct, frozen=True):
    """An event that holds now: since when, for which task, its first pod, and all indexes for which it holds.

    `policy_events` finds them in what is observed; `Rules.match_policy` finds the policy for one.
    """

    since: float
    name: str
    task: str = ""
    index: int | None = None
    attempt: int = 0
    indexes: IndexSet = EMPTY
    exit_code: int | None = None
    #: Since when it holds for each of the indexes; None where it is `since` for all of them.
    times: EarliestIndex | None = None

    @property
    def key(self) -> str:
        """The name under which the status records an event of a whole task or Job."""
        return f"{self.name}/{self.task}"


class PolicyMatch(msgspec.Struct, frozen=True):
    """The policy that matches, its owner, when its action is due, and its timeout in seconds, None where it has none.

    The decision executes the action when it is due, or decides again then.
    """

    policy: Policy
    owner: str
    due: float
    timeout: float | None = None


class PolicyTable:
    """A list of policies by event and exit code, with timeouts in seconds: an event costs the same however many there are.

    Made by `rules`, once for each list. Never fails: a timeout that cannot be read never ends."""

    __slots__ = ("_by_event", "_by_exit_code", "_pending", "_policies")

    def __init__(self, policies: Sequence[Policy]) -> None:
        #: Each policy with its timeout in seconds, None where it has none.
        self._policies = [
            (policy, _seconds(policy.timeout) if policy.timeout else None) for policy in policies
        ]
        # The number of the first policy for each cause. Every pod is pending at first, so that PodPending needs a timeout.
        self._by_event: dict[str, int] = {}
        self._by_exit_code: dict[int, int] = {}
        self._pending: int | None = None
        for number, (policy, timeout) in enumerate(self._policies):
            events = frozenset(policy.all_events)
            for event in events:
                self._by_event.setdefault(event, number)
            if policy.exit_code is not None:
                self._by_exit_code.setdefault(policy.exit_code, number)
            if self._pending is None and timeout is not None and not events.isdisjoint((POD_PENDING, ANY)):
                self._pending = number

    def match(self, event: PolicyEvent, owner: str) -> PolicyMatch | None:
        """The first policy that matches."""
        number = self._first(event)
        if number is None:
            return None
        policy, timeout = self._policies[number]
        # Without a timeout it is due at once, even if the clock of the pod's node is ahead.
        return PolicyMatch(policy, owner, 0.0 if timeout is None else event.since + timeout, timeout)

    def _first(self, event: PolicyEvent) -> int | None:
        if event.name == POD_PENDING:
            return self._pending
        found = [self._by_event.get(event.name), self._by_event.get(ANY)]
        if event.name == POD_FAILED and event.exit_code is not None:
            found.append(self._by_exit_code.get(event.exit_code))
        return min((number for number in found if number is not None), default=None)


def _seconds(timeout: str) -> float:
    """Admission refuses a timeout that cannot be read; in a Job that another version started, it never ends."""
    try:
        return seconds(timeout)
    except ValueError:
        return LONGEST / 1e9
