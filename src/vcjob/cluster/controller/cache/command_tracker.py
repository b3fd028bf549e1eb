"""The Commands of one Job in the order of their creation, and those whose Job is not known.

The job cache puts Commands in as the watch reports them. `CommandTracker` gives them to the lifecycle, which decides
what they do; Commands that stay without a Job are removed by `orphans`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec

from vcjob.cluster.resources import COMMANDS, CommandMeta, PartialCommand, PartialJob
from vcjob.kube.api.objects import Key, version_number
from vcjob.lifecycle.observed import Command, Observed


class WatchedCommandMeta(CommandMeta, rename="camel", gc=False):
    deletion_timestamp: str | None = None


class WatchedCommand(PartialCommand, gc=False):
    """A Command as the controller's watch reads it. One with a finalizer exists for long after its deletion, but it
    has been executed or withdrawn by then: see `Caches.connect`."""

    metadata: WatchedCommandMeta = msgspec.field(default_factory=WatchedCommandMeta)


WATCHED_COMMANDS = COMMANDS.read_as(WatchedCommand)


class CommandTracker:
    """The Command objects of one Job. The informer's handlers add them in any order and at constant cost; `refresh`
    sorts them, but only if they came in another order than that of their creation."""

    __slots__ = ("_changed", "_newest", "_objects", "_observed", "_sorted")

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._objects: dict[str, PartialCommand] = {}
        #: The uids that were added or removed since the last refresh, in order; no others than exist or are observed.
        self._changed: dict[str, None] = {}
        self._newest = 0
        self._sorted = True

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[PartialCommand]:
        return iter(self._objects.values())

    def get(self, uid: str) -> PartialCommand | None:
        return self._objects.get(uid)

    def add(self, command: PartialCommand) -> None:
        version = _version(command)
        self._sorted = self._sorted and version > self._newest
        self._newest = max(self._newest, version)
        self._objects[command.metadata.uid] = command
        self._changed[command.metadata.uid] = None

    def remove(self, uid: str) -> None:
        if self._objects.pop(uid, None) is None:
            return
        if uid in self._observed.commands:
            self._changed[uid] = None
        else:
            self._changed.pop(uid, None)

    def refresh(self) -> None:
        """Give the lifecycle the Commands as they are now, in the order of their creation. A first list is not
        sorted."""
        if not self._sorted:
            self._objects = dict(sorted(self._objects.items(), key=lambda item: _version(item[1])))
            self._observed.commands, self._changed, self._sorted = {}, dict.fromkeys(self._objects), True
        for uid in self._changed:
            if (command := self._objects.get(uid)) is not None:
                self._observed.commands[uid] = Command(uid, command.action)
            else:
                self._observed.commands.pop(uid, None)
        self._changed = {}


class UnmatchedCommands:
    """Commands whose Job is not known, by the Job's namespace and name: the Job's own watch can be slower, or the Job
    does not exist."""

    def __init__(self) -> None:
        self._by_job: dict[Key, dict[str, tuple[PartialCommand, float]]] = {}

    def add(self, command: PartialCommand) -> None:
        assert command.target is not None
        key = (command.metadata.namespace, command.target.name)
        self._by_job.setdefault(key, {}).setdefault(command.metadata.uid, (command, time.monotonic()))

    def remove(self, command: PartialCommand) -> None:
        assert command.target is not None
        key = (command.metadata.namespace, command.target.name)
        commands = self._by_job.get(key, {})
        commands.pop(command.metadata.uid, None)
        if not commands:
            self._by_job.pop(key, None)

    def take(self, job: PartialJob) -> list[PartialCommand]:
        """Remove and return the Commands for this Job."""
        known = self._by_job.get((job.metadata.namespace, job.metadata.name), {})
        found = [command for command, _ in known.values() if is_for(command, job)]
        for command in found:
            self.remove(command)
        return found

    def older_than(self, seconds: float) -> list[PartialCommand]:
        due = time.monotonic() - seconds
        return [c for commands in self._by_job.values() for c, since in commands.values() if since <= due]


def is_for(command: PartialCommand, job: PartialJob) -> bool:
    """Whether a Command is meant for this Job and not for an earlier one of the same name."""
    target, meta = command.target, job.metadata
    if target is None or (command.metadata.namespace, target.name) != (meta.namespace, meta.name):
        return False
    if target.uid:
        return target.uid == meta.uid
    created = command.metadata.creation_timestamp
    # Both are RFC 3339 in UTC with whole seconds, so they compare as text.
    return created is None or meta.creation_timestamp is None or created >= meta.creation_timestamp


def _version(command: PartialCommand) -> int:
    return version_number(command.metadata.resource_version)
