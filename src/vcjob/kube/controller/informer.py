"""A cache of one kind of object, kept up to date by a watch.

Handlers are called for every difference between the cache and the server, also after a new list: nothing is
reported twice and no deletion is missed. An object that was deleted and created again under its name is reported
as a deletion and an addition. A handler that fails is logged; a watch that fails is retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Generic, TypeVar

from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Key, MetadataReader, version_number
from vcjob.kube.api.resources import Resource
from vcjob.kube.controller.watch import Batch, Follower, Snapshot, WatchSettings

T = TypeVar("T")
log = logging.getLogger(__name__)


class Informer(Generic[T]):
    """Start `run` in a task, wait for `synced`, then read. It belongs to one event loop, so reads need no lock.

    Its handlers run on that loop and must not block. `run` never ends on its own: errors are retried, and the last
    one is in `last_error`.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: str | None = None,
        settings: WatchSettings | None = None,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.last_error: Exception | None = None  # why the cache may be stale; None while the watch works
        self._on_error = on_error
        self._follower = Follower(
            client,
            resource,
            namespace=namespace,
            labels=labels,
            fields=fields,
            settings=settings,
            on_error=self._failed,
        )
        reader = MetadataReader(resource.model)
        self._key_of, self._uid_of, self._version_of = reader.key, reader.uid, reader.version
        self._objects: dict[Key, T] = {}
        self._on_add: list[Callable[[T], None]] = []
        self._on_update: list[Callable[[T, T], None]] = []
        self._on_delete: list[Callable[[T], None]] = []
        self._seen = 0

    def on_change(
        self,
        *,
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T], None] | None = None,
    ) -> None:
        """Register handlers `add(new)`, `update(old, new)` and `delete(old)`, before or after the start."""
        if add is not None:
            self._on_add.append(add)
            for found in list(self._objects.values()):
                self._call(add, found)
        if update is not None:
            self._on_update.append(update)
        if delete is not None:
            self._on_delete.append(delete)

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._objects.get((namespace, name))

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    @property
    def resource_version(self) -> int:
        """The resource version up to which the cache is complete."""
        return self._seen

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        async with aclosing(self._follower.run()) as steps:
            async for step in steps:
                self.last_error = None
                if isinstance(step, Snapshot):
                    await self._replace(step)
                else:
                    self._apply(step)

    def _apply(self, batch: Batch[T]) -> None:
        for change in batch.changes:
            if change.type == "DELETED":
                self._remove(self._key_of(change.object), change.object)
            else:
                self._put(change.object)
        self._advance(batch.resource_version)

    async def _replace(self, snapshot: Snapshot[T]) -> None:
        """Replace the cache by a new list and report only the differences."""
        listed = {self._key_of(found) for found in snapshot.items}
        for key in [key for key in self._objects if key not in listed]:
            self._remove(key, self._objects[key])
        for number, found in enumerate(snapshot.items):
            self._put(found)
            if number % 500 == 499:
                await asyncio.sleep(0)  # other tasks, such as lease renewal, run in between
        self._seen = 0  # after a restored backup, versions may be lower than before
        self._advance(snapshot.resource_version)
        self.synced.set()

    def _put(self, new: T) -> None:
        key = self._key_of(new)
        old = self._objects.get(key)
        if old is not None and self._uid_of(old) != self._uid_of(new):
            self._remove(key, old)
            old = None
        if old is not None and self._version_of(old) == self._version_of(new):
            return
        self._objects[key] = new
        if old is None:
            for add in self._on_add:
                self._call(add, new)
        else:
            for update in self._on_update:
                self._call(update, old, new)

    def _remove(self, key: Key, last: T) -> None:
        """`last` is the object's final state, if the server sent it."""
        old = self._objects.get(key)
        if old is None or self._uid_of(old) != self._uid_of(last):
            return
        del self._objects[key]
        for delete in self._on_delete:
            self._call(delete, last)

    def _call(self, handler: Callable[..., None], *objects: T) -> None:
        try:
            handler(*objects)
        except Exception:
            log.exception("handler for %s failed", self.resource.plural)

    def _advance(self, resource_version: str) -> None:
        self._seen = max(self._seen, version_number(resource_version))

    def _failed(self, error: Exception) -> None:
        self.last_error = error
        if self._on_error is not None:
            self._on_error(error)
