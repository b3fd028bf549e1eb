"""The controller's view of all Jobs, kept by the informers' handlers: each change costs the same, however
large the Job, and only what a Job owns by uid counts for it. Labels alone never do."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from vcjob.cluster.controller.cache.job_state import (
    HALF_DELETED_SECONDS,
    JobKey,
    JobState,
    ObjectKey,
    version_of,
)
from vcjob.cluster.controller.cache.pod_facts import fact_of
from vcjob.cluster.resources import (
    PartialCommand,
    PartialGroup,
    PartialJob,
    PartialOwned,
    PartialPod,
    PartialSpecced,
    controller_of,
)
from vcjob.kube.api.objects import Key, version_number
from vcjob.lifecycle.observed import Command
from vcjob.lifecycle.pod import PodFact

#: How soon a Job is looked at after a change of one of its pods: changes come in bursts.
SETTLE_SECONDS = 0.02
#: How soon where only the words about a waiting pod changed. Most are overtaken by the pod's start.
WORDS_SETTLE_SECONDS = 0.5


class JobCache:
    """Every Job by namespace and uid. `wake(key, seconds)` has a Job looked at; `now()` is the time of day."""

    def __init__(self, wake: Callable[[JobKey, float], None], now: Callable[[], float] = time.time) -> None:
        self._wake = wake
        self._now = now
        self._entries: dict[JobKey, JobState] = {}
        #: The Job that holds a name now.
        self._by_name: dict[Key, JobState] = {}
        #: Jobs that wait for another's object to go, by kind, namespace and name.
        self._waiting: dict[tuple[str, str, str], set[JobKey]] = {}
        #: Commands that came before their Job.
        self._early: dict[str, PartialCommand] = {}
        #: When each scheduler last gave a sign of life.
        self._schedulers_seen_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[JobState]:
        return iter(self._entries.values())

    def get(self, key: JobKey) -> JobState | None:
        return self._entries.get(key)

    def phases(self) -> Counter[str]:
        """How many Jobs are in which phase; those that nobody has looked at yet are left out."""
        return Counter(str(entry.status.phase) for entry in self._entries.values() if entry.status)

    def named(self, namespace: str, name: str) -> JobState | None:
        return self._by_name.get((namespace, name))

    # Jobs

    def job_changed(self, lean: PartialJob) -> None:
        meta = lean.metadata
        entry = self._entry((meta.namespace, meta.uid), meta.name)
        if entry.take(lean):
            self._by_name[meta.namespace, meta.name] = entry
            self._wake(entry.key, 0.0)
            for command in [c for c in self._early.values() if self._is_for(c, entry)]:
                del self._early[command.metadata.uid]
                self.command_added(command)

    def job_gone(self, lean: PartialJob) -> None:
        meta = lean.metadata
        entry = self._entries.get((meta.namespace, meta.uid))
        if entry is not None:
            if self._by_name.get((meta.namespace, meta.name)) is entry:
                del self._by_name[meta.namespace, meta.name]
            entry.lean = None
            entry.release()
            entry.forget(list(entry.departed))
            entry.deleted = bool(entry.observed.pods)
            if not entry.empty:
                self._wake(entry.key, 0.0)
            self._sweep(entry)

    # Pods

    def pod_changed(self, pod: PartialPod) -> None:
        owner = controller_of(pod.metadata.owner_references)
        if owner is None:
            return
        entry = self._entry((pod.metadata.namespace, owner.uid), owner.name)
        entry.unseen.pop(pod.metadata.uid, None)
        fact = fact_of(pod)
        if fact is None:
            return
        if fact.terminating and pod.metadata.deletion_grace_period_seconds == 0:
            entry.half_deleted.setdefault(pod.metadata.uid, (pod.metadata.name, time.monotonic()))
            self._wake(entry.key, HALF_DELETED_SECONDS)
        # What we made ourselves and what changes nothing for the Job is not worth a look.
        if entry.observed.put(fact):
            entry.causes.put(pod)
            self._wake(entry.key, SETTLE_SECONDS)
        elif entry.causes.put(pod):
            self._wake(entry.key, WORDS_SETTLE_SECONDS)

    def see_pod(self, entry: JobState, pod: PartialPod) -> bool:
        """Take in a pod that the Job owns. False: it does not say which of the Job's pods it is."""
        fact = fact_of(pod)
        if fact is None:
            return False
        entry.observed.put(fact)
        entry.causes.put(pod)
        return True

    def pod_gone(self, pod: PartialPod) -> None:
        meta = pod.metadata
        owner = controller_of(meta.owner_references)
        if owner is None:
            self._freed("Pod", meta.namespace, meta.name)
            return
        entry = self._entries.get((meta.namespace, owner.uid))
        if entry is not None:
            last = fact_of(pod)
            if last is not None and _is_news(entry, last):
                # That it was there, or how it ended: it is forgotten once that is written down.
                entry.observed.put(self._going(last))
                entry.departed.append(meta.uid)
            else:
                entry.forget_pod(meta.uid)
            self._wake(entry.key, SETTLE_SECONDS)
            self._sweep(entry)
        self._freed("Pod", meta.namespace, meta.name)

    def _going(self, last: PodFact) -> PodFact:
        """One that was taken away without a farewell lives no more either."""
        if last.done or last.terminating:
            return last
        return msgspec.structs.replace(last, terminating=True, since=self._now())

    # Other objects

    def object_changed(self, kind: str, found: PartialOwned) -> None:
        owner = controller_of(found.metadata.owner_references)
        if owner is None:
            return
        meta = found.metadata
        entry, key = self._entry((meta.namespace, owner.uid), owner.name), (kind, meta.name)
        known = entry.owned.get(key)
        if known is not None and version_of(found) <= version_of(known):
            return
        entry.owned[key] = found
        changed = known is None or _content(known) != _content(found)
        if changed:
            entry.mark(key)
        if _group_phase(known) != _group_phase(found):
            self._wake(entry.key, 0.0)  # its pods may wait for that
        elif changed:
            self._wake(entry.key, SETTLE_SECONDS)

    def object_gone(self, kind: str, found: PartialOwned) -> None:
        meta = found.metadata
        owner = controller_of(meta.owner_references)
        entry = self._entries.get((meta.namespace, owner.uid)) if owner is not None else None
        if entry is not None:
            key: ObjectKey = (kind, found.metadata.name)
            known = entry.owned.get(key)
            if known is not None and known.metadata.uid == found.metadata.uid:
                del entry.owned[key]
                entry.verified.pop(found.metadata.name, None)
                entry.mark(key)
            self._wake(entry.key, SETTLE_SECONDS)
            self._sweep(entry)
        self._freed(kind, found.metadata.namespace, found.metadata.name)

    def wait_for(self, entry: JobState, kind: str, name: str) -> None:
        """Have the Job looked at once another's object of this name is gone."""
        self._waiting.setdefault((kind, entry.namespace, name), set()).add(entry.key)

    def _freed(self, kind: str, namespace: str, name: str) -> None:
        for key in self._waiting.pop((kind, namespace, name), ()):
            entry = self._entries.get(key)
            if entry is not None:
                entry.retry_at = 0.0
            self._wake(key, SETTLE_SECONDS)

    # Commands

    def command_added(self, command: PartialCommand) -> None:
        entry = self._target(command)
        if entry is None:
            self._early[command.metadata.uid] = command
            return
        entry.commands[command.metadata.uid] = command
        # A first list comes in no order, and what was asked for last is to be done last.
        in_order = sorted(entry.commands.values(), key=lambda c: version_number(c.metadata.resource_version))
        entry.observed.commands = {c.metadata.uid: Command(c.metadata.uid, c.action) for c in in_order}
        self._wake(entry.key, 0.0)

    def command_gone(self, command: PartialCommand) -> None:
        self._early.pop(command.metadata.uid, None)
        entry = self._target(command)
        if entry is not None:
            entry.observed.commands.pop(command.metadata.uid, None)
            entry.commands.pop(command.metadata.uid, None)

    def _target(self, command: PartialCommand) -> JobState | None:
        target = command.target
        if target is None or target.kind not in ("", "Job"):
            return None
        entry = self.named(command.metadata.namespace, target.name)
        return entry if entry is not None and target.uid in ("", entry.uid) else None

    def _is_for(self, command: PartialCommand, entry: JobState) -> bool:
        return self._target(command) is entry

    def _entry(self, key: JobKey, name: str) -> JobState:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = JobState(key, name, self._schedulers_seen_at)
        return entry

    def _sweep(self, entry: JobState) -> None:
        if entry.empty:
            self._entries.pop(entry.key, None)


def _is_news(entry: JobState, last: PodFact) -> bool:
    """Whether the end of this pod says something that the status does not have yet."""
    known = entry.observed.pod(last.task, last.index, last.attempt)
    if entry.lean is None or (known is not None and known.uid != last.uid):
        return False
    if last.done or entry.status is None:
        return True
    memory = entry.status.memory(last.task)
    return memory.attempts.of(last.index) == last.attempt and last.index not in memory.seen


def _content(found: PartialOwned) -> bytes:
    """What we would mend. Of an object known by its metadata alone, any change may be one of its content."""
    return (
        bytes(found.spec) if isinstance(found, PartialSpecced) else found.metadata.resource_version.encode()
    )


def _group_phase(found: PartialOwned | None) -> str:
    return found.status.phase if isinstance(found, PartialGroup) and found.status else ""
