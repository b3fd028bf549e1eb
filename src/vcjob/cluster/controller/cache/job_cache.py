"""The controller's view of all Jobs, kept by the informers' handlers.

Each change costs the same, however large the Job. Only what a Job owns by uid counts for it; labels alone never do.
The handlers make no request: they record what happened and put the Job into the queue.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import msgspec

from vcjob.cluster.controller.cache.command_tracker import UnmatchedCommands, is_for
from vcjob.cluster.controller.cache.job_state import JobState, QueueKey
from vcjob.cluster.controller.cache.object_tracker import content_of
from vcjob.cluster.controller.cache.pod_facts import fact_of
from vcjob.cluster.controller.cache.pod_tracker import HALF_DELETED_SECONDS, PodChange
from vcjob.cluster.resources import (
    PartialCommand,
    PartialGroup,
    PartialJob,
    PartialOwned,
    PartialPod,
    controller_of,
)
from vcjob.kube.api.objects import Key
from vcjob.lifecycle.pod import PodFact

#: How soon a Job is reconciled after a change of one of its pods: changes come in bursts.
CHANGE_DELAY_SECONDS = 0.02
#: How soon where only the reason why a pod waits has changed. Most pods start before that.
CAUSE_DELAY_SECONDS = 0.5

#: Kind, namespace and name of an object.
ObjectName: TypeAlias = tuple[str, str, str]


class JobCache:
    """Every Job by namespace and uid. `wake(key, seconds)` has a Job reconciled; `now()` is the time of day;
    `discarded(key)` learns that nothing of a Job is left."""

    def __init__(
        self,
        wake: Callable[[QueueKey, float], None],
        now: Callable[[], float] = time.time,
        discarded: Callable[[QueueKey], None] = lambda key: None,
    ) -> None:
        self._wake = wake
        self._now = now
        self._discarded = discarded
        self._states: dict[QueueKey, JobState] = {}
        #: The Job that has a name now.
        self._by_name: dict[Key, JobState] = {}
        #: Jobs that wait until another owner's object is deleted, by kind, namespace and name.
        self._waiting: dict[ObjectName, set[QueueKey]] = {}
        #: The same by Job.
        self._awaited: dict[QueueKey, set[ObjectName]] = {}
        self.unmatched = UnmatchedCommands()
        #: When each scheduler last handled a pod.
        self._schedulers_seen_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[JobState]:
        return iter(self._states.values())

    def get(self, key: QueueKey) -> JobState | None:
        return self._states.get(key)

    def phases(self) -> Counter[str]:
        """How many Jobs are in which phase, without those that were never reconciled.

        A scrape calls it on a thread while Jobs come and go: it counts a copy and reads each status once.
        """
        found = (state.status for state in list(self._states.values()))
        return Counter(str(status.phase) for status in found if status)

    def named(self, namespace: str, name: str) -> JobState | None:
        return self._by_name.get((namespace, name))

    # Jobs

    def job_changed(self, resource: PartialJob) -> None:
        meta = resource.metadata
        state = self._get_or_add((meta.namespace, meta.uid), meta.name)
        if state.writing:
            state.reported = resource  # most likely what we are writing
            return
        if state.update(resource):
            self._by_name[meta.namespace, meta.name] = state
            self._wake(state.key, 0.0)
            for command in self.unmatched.take(resource):
                state.commands.add(command)

    def write_answered(self, state: JobState) -> None:
        """The answer to a write of the Job's status is known: take in what the watch has shown meanwhile."""
        state.writing, reported = False, state.reported
        state.reported = None
        if reported is not None:
            self.job_changed(reported)

    def job_gone(self, resource: PartialJob) -> None:
        meta = resource.metadata
        state = self._states.get((meta.namespace, meta.uid))
        if state is not None and state.deferred is not None:
            state.deferred.append(partial(self.job_gone, resource))
            return
        if state is not None:
            if self._by_name.get((meta.namespace, meta.name)) is state:
                del self._by_name[meta.namespace, meta.name]
            state.lose()
            state.release()
            for command in list(state.commands):
                state.commands.remove(command.metadata.uid)
                self.unmatched.add(command)
            state.pods.forget_departed(list(state.pods.departed))
            state.deleted, state.pods.to_delete = bool(state.observed.pods), None
            if not state.empty:
                self._wake(state.key, 0.0)
            self._discard_if_empty(state)

    # Pods

    def pod_changed(self, pod: PartialPod) -> None:
        meta = pod.metadata
        owner = controller_of(meta.owner_references)
        if owner is None:
            return
        state = self._get_or_add((meta.namespace, owner.uid), owner.name)
        if state.deferred is not None:
            state.deferred.append(partial(self.pod_changed, pod))
            return
        if state.pods.saw(pod):
            return
        change = state.pods.record(pod)
        if change is PodChange.UNIDENTIFIED:
            self._discard_if_empty(state)
            return
        if meta.deletion_timestamp is not None and meta.deletion_grace_period_seconds == 0:
            state.pods.record_half_deleted(pod)
            self._wake(state.key, HALF_DELETED_SECONDS)
        # Our own creations, and what changes nothing for the Job, need no reconcile.
        if change is PodChange.FACT:
            self._wake(state.key, CHANGE_DELAY_SECONDS)
        elif change is PodChange.CAUSE:
            self._wake_for_cause(state)

    def _wake_for_cause(self, state: JobState) -> None:
        """Have the reason why pods wait reported. Where none is shown and none is due, as for most pods on their way to a
        node, that is when the first one is due."""
        now, delay = self._now(), CAUSE_DELAY_SECONDS
        if state.observed.blocked is None:
            cause, due = state.pods.causes.worst(now)
            if cause is None:
                if due is None:
                    return
                delay = max(delay, due - now)
        self._wake(state.key, delay)

    def pod_gone(self, pod: PartialPod) -> None:
        meta = pod.metadata
        owner = controller_of(meta.owner_references)
        state = self._states.get((meta.namespace, owner.uid)) if owner is not None else None
        if state is not None and state.deferred is not None:
            state.deferred.append(partial(self.pod_gone, pod))
            return
        if state is not None:
            last = fact_of(pod) or state.pods.fact_of_known(pod)
            if last is not None and _is_unrecorded(state, last):
                # That it existed, or how it ended: it is forgotten once that is written.
                state.observed.put(self._as_deleted(last))
                state.pods.departed.append(meta.uid)
            else:
                state.pods.forget(meta.uid)
            self._wake(state.key, CHANGE_DELAY_SECONDS)
            self._discard_if_empty(state)
        self._name_released("Pod", meta.namespace, meta.name)

    def _as_deleted(self, last: PodFact) -> PodFact:
        """A pod that was removed without a grace period counts as terminating from now on."""
        if last.done or last.terminating:
            return last
        return msgspec.structs.replace(last, terminating=True, since=self._now())

    # Other objects

    def object_changed(self, kind: str, found: PartialOwned) -> None:
        meta = found.metadata
        owner = controller_of(meta.owner_references)
        if owner is None:
            return
        state, key = self._get_or_add((meta.namespace, owner.uid), owner.name), (kind, meta.name)
        known = state.objects.owned.get(key)
        if not state.objects.update(key, found):
            return
        if known is None:
            changed = key not in state.objects.creating
        else:
            changed = content_of(known) != content_of(found)
        if changed:
            state.objects.mark_dirty(key)
        if _group_phase(known) != _group_phase(found):
            self._wake(state.key, 0.0)  # its pods can wait for that
        elif changed:
            self._wake(state.key, CHANGE_DELAY_SECONDS)

    def object_gone(self, kind: str, found: PartialOwned) -> None:
        meta = found.metadata
        owner = controller_of(meta.owner_references)
        state = self._states.get((meta.namespace, owner.uid)) if owner is not None else None
        if state is not None:
            state.objects.remove((kind, meta.name), meta.uid)
            self._wake(state.key, CHANGE_DELAY_SECONDS)
            self._discard_if_empty(state)
        self._name_released(kind, meta.namespace, meta.name)

    def wait_for_name(self, state: JobState, kind: str, name: str) -> None:
        """Have the Job reconciled once another owner's object of this name is deleted."""
        awaited = (kind, state.namespace, name)
        self._waiting.setdefault(awaited, set()).add(state.key)
        self._awaited.setdefault(state.key, set()).add(awaited)

    def _name_released(self, kind: str, namespace: str, name: str) -> None:
        for key in self._waiting.pop((kind, namespace, name), ()):
            self._awaited[key].discard((kind, namespace, name))
            state = self._states.get(key)
            if state is not None:
                state.retry.retry_now()
            self._wake(key, CHANGE_DELAY_SECONDS)

    # Commands

    def command_added(self, command: PartialCommand) -> None:
        if command.target is None or command.target.kind not in ("", "Job"):
            return
        state = self._target(command)
        if state is None:
            self.unmatched.add(command)
            return
        state.commands.add(command)
        self._wake(state.key, 0.0)

    def command_gone(self, command: PartialCommand) -> None:
        if command.target is None:
            return
        self.unmatched.remove(command)
        state = self.named(command.metadata.namespace, command.target.name)
        if state is not None:
            state.commands.remove(command.metadata.uid)

    def _target(self, command: PartialCommand) -> JobState | None:
        assert command.target is not None
        state = self.named(command.metadata.namespace, command.target.name)
        if state is None or state.resource is None or not is_for(command, state.resource):
            return None
        return state

    def _get_or_add(self, key: QueueKey, name: str) -> JobState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = JobState(key, name, self._schedulers_seen_at)
        return state

    def _discard_if_empty(self, state: JobState) -> None:
        if not state.empty:
            return
        self._states.pop(state.key, None)
        for awaited in self._awaited.pop(state.key, ()):
            self._waiting[awaited].discard(state.key)
            if not self._waiting[awaited]:
                del self._waiting[awaited]
        self._discarded(state.key)


def _is_unrecorded(state: JobState, last: PodFact) -> bool:
    """Whether the end of this pod says something that the status does not have yet."""
    known = state.observed.pod(last.task, last.index, last.attempt)
    if state.resource is None or (known is not None and known.uid != last.uid):
        return False
    if last.done or state.status is None:
        return True
    memory = state.status.memory(last.task)
    return memory.attempts.of(last.index) == last.attempt and last.index not in memory.seen


def _group_phase(found: PartialOwned | None) -> str:
    return found.status.phase if isinstance(found, PartialGroup) and found.status else ""
