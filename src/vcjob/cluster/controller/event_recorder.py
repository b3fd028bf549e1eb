"""Events on Jobs, for people. Written behind the controller's back: none of its work waits for them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from datetime import UTC, datetime
from typing import Literal

import msgspec

from vcjob.cluster.controller.cache.job_state import JobState
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import EVENTS, Document
from vcjob.kube.errors import KubeError, LeaseLost
from vcjob.spec.job import API_VERSION, KIND

log = logging.getLogger(__name__)
COMPONENT = "vcjob-controller"
#: The same words about the same Job are not said again for this long.
QUIET_SECONDS = 300.0
_MOST_WAITING = 5_000
_MESSAGE_KEPT = 1000


class _Written(msgspec.Struct):
    """Nobody asks what the API server made of an event."""


_WRITTEN = EVENTS.read_as(_Written)


class EventWriter:
    def __init__(self, client: Client, identity: str) -> None:
        self._client = client
        self._identity = identity
        self._queue: asyncio.Queue[Document] = asyncio.Queue(_MOST_WAITING)
        self._number = itertools.count()

    def tell(self, entry: JobState, type: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        now = time.time()
        said = f"{reason}: {message}"
        entry.told = {words: at for words, at in entry.told.items() if now - at < QUIET_SECONDS}
        if said in entry.told or entry.lean is None:
            return
        entry.told[said] = now
        try:
            self._queue.put_nowait(self._event(entry, type, reason, message, now))
        except asyncio.QueueFull:
            log.warning("too many events wait to be written; one about %s is lost", entry.name)

    async def run(self) -> None:
        while True:
            await self._write(await self._queue.get())

    async def drain(self) -> None:
        """Write what still waits."""
        while not self._queue.empty():
            await self._write(self._queue.get_nowait())

    async def _write(self, event: Document) -> None:
        try:
            await self._client.create(_WRITTEN, event, event["metadata"]["namespace"])
        except LeaseLost:
            raise
        except KubeError as error:
            log.debug("an event was not written: %s", error)

    def _event(self, entry: JobState, type: str, reason: str, message: str, now: float) -> Document:
        assert entry.lean is not None
        meta = entry.lean.metadata
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return EVENTS.manifest(
            f"{meta.name}.{time.time_ns():x}{next(self._number) % 256:02x}",
            meta.namespace,
            involvedObject={
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": meta.name,
                "namespace": meta.namespace,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            type=type,
            reason=reason,
            message=message if len(message) <= _MESSAGE_KEPT else message[:_MESSAGE_KEPT] + "…",
            source={"component": COMPONENT},
            reportingComponent=COMPONENT,
            reportingInstance=self._identity[:128],
            firstTimestamp=at,
            lastTimestamp=at,
            count=1,
        )
