"""What a backend observes of a Job, aggregated: one pod event costs the same at 3 pods and at 10,000.

The backend calls `put` whenever it learns something about a pod, and `drop` when a pod no longer exists; both may
be repeated. Nothing here depends on the status: pods are grouped by task and attempt, and `decide` treats those of
the current attempt as current and the others as left over.
"""

from __future__ import annotations

from typing import Any

import msgspec

from vcjob.lifecycle.earliest_index import EarliestIndex
from vcjob.lifecycle.indexset import COUNTER_LIMIT, EMPTY, INDEX_LIMIT, IndexSet
from vcjob.lifecycle.pod import PodFact
from vcjob.plugins.wait import CONTAINER_NAME, WAIT_EXIT_CODES


class Blocked(msgspec.Struct, frozen=True):
    """Why pods cannot be created at present (a quota, a conflict, no free GPU): a reason and a message.

    The backends report it, and the status of a pending Job shows it. The reason is one of `wellknown.reasons`.
    """

    reason: str
    message: str


class Hang(msgspec.Struct, frozen=True):
    """The ranks wait for each other: why, and in which version of the Job's status that was seen.

    Reported by a backend that looks for hangs. After a restart the version is another one, and the report no longer
    counts.
    """

    message: str
    version: int


class Command(msgspec.Struct, frozen=True):
    """An action that a user requested with a Command object or a verb.

    The status records the uid of each executed one, so that a crash does not execute it again.
    """

    uid: str
    action: str


_INDEX_SETS = (
    "present", "pending", "running", "ready", "succeeded", "failed", "unknown", "terminating",
    "evicted", "wait_timed_out",
)  # fmt: skip


class Group:
    """The pods of one task on one attempt, as index sets. A terminating pod is in `terminating`, and in
    `succeeded` or `failed` once it ended, but never in pending, running or unknown."""

    __slots__ = (
        "evicted", "evictions", "failed", "failures", "last_success", "pending", "pendings", "present", "ready", "restarts",
        "running", "succeeded", "terminating", "unknown", "unknowns", "wait_timed_out",
    )  # fmt: skip

    def __init__(self) -> None:
        self.present = self.pending = self.running = self.ready = EMPTY
        self.succeeded = self.failed = self.unknown = self.terminating = EMPTY
        #: Failed or terminating because somebody evicted or deleted them.
        self.evicted = EMPTY
        #: Still retrying although wait-for-master timed out.
        self.wait_timed_out = EMPTY
        self.pendings, self.unknowns, self.evictions = EarliestIndex(), EarliestIndex(), EarliestIndex()
        #: Failed and not evicted, by exit code (None: it is unknown).
        self.failures: dict[int | None, EarliestIndex] = {}
        #: When the latest pod succeeded.
        self.last_success = 0.0
        #: Pods whose containers restarted, by the number of restarts.
        self.restarts: dict[int, IndexSet] = {}

    def add(self, pod: PodFact) -> None:
        index = pod.index
        self.present = self.present.with_index(index)
        if pod.restarts:
            self.restarts[pod.restarts] = self.restarts.get(pod.restarts, EMPTY).with_index(index)
        if pod.terminating:
            self.terminating = self.terminating.with_index(index)
        if pod.phase == "Succeeded":
            self.succeeded = self.succeeded.with_index(index)
            self.last_success = max(self.last_success, pod.since)
            return
        if pod.phase == "Failed":
            self.failed = self.failed.with_index(index)
        if _is_evicted(pod):
            self.evicted = self.evicted.with_index(index)
            self.evictions.add(index, pod.since)
        elif pod.phase == "Failed":
            self.failures.setdefault(_exit_code(pod), EarliestIndex()).add(index, pod.since)
        elif pod.phase == "Pending":
            self.pending = self.pending.with_index(index)
            self.pendings.add(index, pod.created)
        elif pod.phase == "Unknown":
            self.unknown = self.unknown.with_index(index)
            self.unknowns.add(index, pod.since)
        else:
            self.running = self.running.with_index(index)
            if pod.ready:
                self.ready = self.ready.with_index(index)
        if not pod.done and not pod.terminating and _wait_timed_out(pod):
            self.wait_timed_out = self.wait_timed_out.with_index(index)

    def remove(self, pod: PodFact) -> None:
        index = pod.index
        for name in _INDEX_SETS:
            held = getattr(self, name)
            if held.mask >> index & 1:
                setattr(self, name, held.without_index(index))
        for earliest in (self.pendings, self.unknowns, self.evictions, self.failures.get(_exit_code(pod))):
            if earliest is not None:
                earliest.discard(index)
        if pod.restarts:
            left = self.restarts[pod.restarts].without_index(index)
            if left:
                self.restarts[pod.restarts] = left
            else:
                del self.restarts[pod.restarts]


class Observed:
    """The pods and Commands of one Job, as one backend sees them. Owned and changed by the backend; `decide` only
    reads it. It must not know the status, policies or phases."""

    def __init__(self) -> None:
        #: The reports that are aggregated, by (task, index, attempt).
        self.pods: dict[tuple[str, int, int], PodFact] = {}
        #: Per task, by attempt. A group without pods is not kept.
        self.groups: dict[str, dict[int, Group]] = {}
        self._keys: dict[str, tuple[str, int, int]] = {}
        #: Commands that are not deleted yet, oldest first, by uid.
        self.commands: dict[str, Command] = {}
        #: Why creations are rejected; the backend retries them with back-off. Shown as the pending reason.
        self.blocked: Blocked | None = None
        #: Why no pod may be created at present (the PodGroup is Pending, GPUs are in use); None where they may.
        self.held: Blocked | None = None
        #: The scheduler cannot place the rest of a gang of which a part runs.
        self.gang_broken = False
        #: Why the Job makes no progress, where the backend can see that; None while it works.
        self.hang: Hang | None = None

    def put(self, pod: PodFact) -> bool:
        """Record the state of a pod. Returns False where that changes nothing.

        A pod keeps its place and its end: a report that comes late, or annotations that somebody edited, change
        neither. A pod whose index or attempt is out of range is ignored: it is none of the Job's.
        """
        if not (0 <= pod.index < INDEX_LIMIT and 0 <= pod.attempt < COUNTER_LIMIT):
            return False
        key = self._keys.get(pod.uid, (pod.task, pod.index, pod.attempt))
        old = self.pods.get(key)
        if old is not None and old.uid == pod.uid:
            if old.done and not pod.done:
                return False
            pod = _merged(old, pod)
        if old == pod:
            return False
        if old is not None:
            self._forget(key, old)
        self.pods[key] = pod
        self._keys[pod.uid] = key
        self.groups.setdefault(pod.task, {}).setdefault(pod.attempt, Group()).add(pod)
        return True

    def drop(self, uid: str) -> None:
        """The pod of this uid no longer exists."""
        key = self._keys.get(uid)
        if key is not None:
            self._forget(key, self.pods[key])

    @property
    def live(self) -> bool:
        """Whether any pod has not ended or is terminating."""
        return any(
            group.present != (group.succeeded | group.failed) - group.terminating
            for groups in self.groups.values()
            for group in groups.values()
        )

    def pod(self, task: str, index: int, attempt: int) -> PodFact | None:
        return self.pods.get((task, index, attempt))

    def known(self, uid: str) -> PodFact | None:
        """The latest report about the pod of this uid."""
        key = self._keys.get(uid)
        return self.pods[key] if key is not None else None

    def _forget(self, key: tuple[str, int, int], pod: PodFact) -> None:
        del self.pods[key], self._keys[pod.uid]
        groups = self.groups[pod.task]
        groups[pod.attempt].remove(pod)
        if not groups[pod.attempt].present:
            del groups[pod.attempt]
        if not groups:
            del self.groups[pod.task]


def _merged(old: PodFact, new: PodFact) -> PodFact:
    """The new report about a pod, without the parts that cannot be true after an earlier report."""
    changes: dict[str, Any] = {}
    if (old.task, old.index, old.attempt) != (new.task, new.index, new.attempt):
        changes |= {"task": old.task, "index": old.index, "attempt": old.attempt}
    if old.terminating and not new.terminating:
        # A deletion is never taken back.
        changes |= {"terminating": True, "since": old.since}
    if old.done and old.phase != new.phase:
        # How a pod ended does not change. A finished pod that is deleted later can look as if the deletion had
        # ended it, and the kubelet's last update hides when the deletion was requested.
        changes |= {"phase": old.phase, "failure": old.failure, "evicted": old.evicted}
    if old.restarts > new.restarts:
        # The number of restarts never falls: a smaller one was written by a component that lost its count.
        changes["restarts"] = old.restarts
    if _replaces_wait_timeout(old, new):
        # The kubelet restarted the wait and may report only that try, which our own request ended.
        changes["failure"] = old.failure
    return msgspec.structs.replace(new, **changes) if changes else new


def _replaces_wait_timeout(old: PodFact, new: PodFact) -> bool:
    failure = new.failure
    return (
        _wait_timed_out(old)
        and failure is not None
        and failure.container == CONTAINER_NAME
        and failure.exit_code not in WAIT_EXIT_CODES
    )


def _is_evicted(pod: PodFact) -> bool:
    return pod.terminating or (pod.phase == "Failed" and pod.evicted)


def _exit_code(pod: PodFact) -> int | None:
    return pod.failure.exit_code if pod.failure else None


def _wait_timed_out(pod: PodFact) -> bool:
    failure = pod.failure
    return (
        failure is not None
        and failure.init
        and failure.container == CONTAINER_NAME
        and failure.exit_code in WAIT_EXIT_CODES
    )
