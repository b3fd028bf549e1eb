"""The cluster's Queues, as far as a Job's admission needs them."""

from __future__ import annotations

import asyncio

from vcjob.admission.review import Queues
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Document, resource
from vcjob.kube.controller.informer import Informer
from vcjob.kube.errors import KubeError

QUEUES = resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
_LOOK_AGAIN = 60.0


class QueueCache:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._informer: Informer[Document] | None = None

    def current(self) -> Queues | None:
        """The Queues by name; None where there are none, or where what we know of them may be old."""
        informer = self._informer
        if informer is None or not informer.synced.is_set() or informer.last_error is not None:
            return None
        return {queue["metadata"]["name"]: queue for queue in informer} or None

    async def run(self) -> None:
        """Follow them until cancelled, from when the cluster knows such a kind."""
        while not await self._served():  # noqa: ASYNC110 - the event is on the server
            await asyncio.sleep(_LOOK_AGAIN)
        self._informer = Informer(self._client, QUEUES)
        await self._informer.run()

    async def _served(self) -> bool:
        try:
            return await self._client.discover(QUEUES.api_version, QUEUES.kind) is not None
        except KubeError:
            return False
