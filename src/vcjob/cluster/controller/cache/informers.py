"""Everything that the controller watches: one informer per kind, or per kind and namespace if it serves only some.

The controller connects them to its `JobCache` when it becomes leader. Kinds that the cluster does not serve are left
out, except Jobs: without them `connect` raises BackendError. Errors of a watch are retried; those that only a user
can resolve, such as a missing right, are raised by `wait_synced`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from vcjob.cluster.controller.cache.command_tracker import WATCHED_COMMANDS, WatchedCommand
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.resources import (
    COMMANDS,
    COSCHEDULING_GROUPS,
    JOBS,
    PARTIAL_CLAIMS,
    PARTIAL_CONFIG_MAPS,
    PARTIAL_COSCHEDULING_GROUPS,
    PARTIAL_GROUPS,
    PARTIAL_JOBS,
    PARTIAL_PODS,
    PARTIAL_POLICIES,
    PARTIAL_PRIORITIES,
    PARTIAL_SERVICES,
    POD_GROUPS,
    controller_of,
)
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Resource
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.watch import WatchSettings
from vcjob.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from vcjob.plan.names import JOB_NAME

T = TypeVar("T")
log = logging.getLogger(__name__)
#: How long a first list may fail before the error is raised.
_SYNC_SECONDS = 20.0
#: Objects per page where the first list is not streamed: even a page of the largest objects fits into memory.
PAGE = 100
#: How long a watch pauses between two reads: of what Jobs wait for, of pods, of what is watched only to be restored.
_URGENT_PAUSE, _POD_PAUSE, _LAZY_PAUSE = 0.005, 0.05, 0.5


class Cache(Generic[T]):
    """The informers of one kind, for all served namespaces."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespaces: tuple[str, ...] | None,
        labels: str | None = None,
        *,
        pause: float = _URGENT_PAUSE,
    ) -> None:
        settings = WatchSettings(read_pause=pause, page_size=PAGE)
        self.informers: dict[str | None, Informer[T]] = {
            namespace: Informer(client, resource, namespace=namespace, labels=labels, settings=settings)
            for namespace in namespaces or (None,)
        }

    def of(self, namespace: str) -> Informer[T] | None:
        return self.informers.get(namespace) or self.informers.get(None)

    def on_change(self, put: Callable[[T], None], gone: Callable[[T], None]) -> None:
        """Report what exists and what is gone. For a Job, an object that it does not control any more is gone."""

        def update(old: T, new: T) -> None:
            if _was_released(old, new):
                gone(old)
            put(new)

        for informer in self.informers.values():
            informer.on_change(add=put, update=update, delete=gone)


class Caches:
    """All informers of the controller. Call `connect`, run the `informers`, then `wait_synced`.

    The controller makes one for each term of leadership. Others read it, but only `JobCache` receives its changes.
    """

    def __init__(self, client: Client, namespaces: tuple[str, ...] | None) -> None:
        self._client = client
        self._namespaces = namespaces
        self.pods = Cache(client, PARTIAL_PODS, namespaces, labels=JOB_NAME, pause=_POD_PAUSE)
        self._jobs = Cache(client, PARTIAL_JOBS, namespaces)
        self._priorities = Informer(client, PARTIAL_PRIORITIES)
        self._all: list[Informer[Any]] = [
            *self.pods.informers.values(),
            *self._jobs.informers.values(),
            self._priorities,
        ]

    @property
    def informers(self) -> Iterable[Informer[Any]]:
        return self._all

    def priorities(self) -> dict[str, int]:
        return {found.metadata.name: found.value for found in self._priorities}

    async def connect(self, jobs: JobCache) -> None:
        """Report everything of the kinds that this cluster serves to `jobs`."""
        if not await self._served(JOBS):
            raise BackendError(
                f"this cluster does not serve Jobs of {JOBS.api_version}",
                hint="install the CRDs: `vcjob install`",
            )
        self._jobs.on_change(jobs.job_changed, jobs.job_gone)
        self.pods.on_change(jobs.pod_changed, jobs.pod_gone)
        owned: list[Resource[Any]] = [PARTIAL_CONFIG_MAPS, PARTIAL_SERVICES, PARTIAL_POLICIES, PARTIAL_CLAIMS]
        if await self._served(POD_GROUPS):
            owned.append(PARTIAL_GROUPS)
        if await self._served(COSCHEDULING_GROUPS):
            owned.append(PARTIAL_COSCHEDULING_GROUPS)
        for resource in owned:
            self._follow_owned(jobs, resource)
        if await self._served(COMMANDS):
            self._follow_commands(jobs)

    def _follow_commands(self, jobs: JobCache) -> None:
        def changed(command: WatchedCommand) -> None:
            if command.metadata.deletion_timestamp is None:
                jobs.command_added(command)
            else:  # the next leader must not execute it again while a finalizer keeps it
                jobs.command_gone(command)

        commands = Cache(self._client, WATCHED_COMMANDS, self._namespaces)
        commands.on_change(changed, jobs.command_gone)
        self._all += commands.informers.values()

    def _follow_owned(self, jobs: JobCache, resource: Resource[Any]) -> None:
        kind = resource.kind
        pause = _URGENT_PAUSE if kind == "PodGroup" else _LAZY_PAUSE
        cache = Cache(self._client, resource, self._namespaces, pause=pause)
        cache.on_change(
            lambda found: jobs.object_changed(kind, found), lambda found: jobs.object_gone(kind, found)
        )
        self._all += cache.informers.values()

    async def _served(self, resource: Resource[Any]) -> bool:
        return await self._client.discover(resource.api_version, resource.kind) is not None


def _was_released(old: Any, new: Any) -> bool:
    """Whether somebody took the object from its Job: `--cascade=orphan` does, or an edit of its owner references."""
    before: Any = getattr(old.metadata, "owner_references", ())
    after: Any = getattr(new.metadata, "owner_references", ())
    if before == after or (owner := controller_of(before)) is None:
        return False
    return (other := controller_of(after)) is None or other.uid != owner.uid


async def wait_synced(informers: Iterable[Informer[Any]]) -> None:
    """Wait for the first list of each. An error that only a user can resolve is raised after some seconds."""
    for informer in informers:
        while not informer.synced.is_set():
            try:
                async with asyncio.timeout(_SYNC_SECONDS):
                    await informer.synced.wait()
            except TimeoutError:
                error = informer.last_error
                log.warning("cannot list %s: %s", informer.resource.plural, error or "no response yet")
                if isinstance(error, Forbidden | Unauthorized | NotFound) and isinstance(error, KubeError):
                    raise error from None
