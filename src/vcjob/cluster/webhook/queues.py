"""A cache of the cluster's Queues for the admission of Jobs.

`process.main` runs it as a task, and the webhook reads it for each Job. Where it has no certain answer (no Queues in
the cluster, a watch that fails) it returns None, and the checks of the queue are left out: a Job is never rejected
because of an old list.
"""

from __future__ import annotations

import asyncio

from vcjob.admission.review import Queues
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import Document, resource
from vcjob.kube.controller.informer import Informer
from vcjob.kube.errors import KubeError

QUEUES = resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
_DISCOVERY_SECONDS = 60.0


class QueueCache:
    """Queues by name, followed by a watch. Without Queues in the cluster, or while the watch fails, it has none.

    `process.main` runs it, and the webhook calls `current` for each request, which never waits.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informer: Informer[Document] | None = None

    def current(self) -> Queues | None:
        """The Queues by name; None where there are none or the cache may be stale."""
        informer = self._informer
        if informer is None or not informer.synced.is_set() or informer.last_error is not None:
            return None
        return {queue["metadata"]["name"]: queue for queue in informer} or None

    async def run(self) -> None:
        """Watch Queues until cancelled, once the cluster serves this kind."""
        while not await self._is_served():  # noqa: ASYNC110 - the event is on the server
            await asyncio.sleep(_DISCOVERY_SECONDS)
        self._informer = Informer(self._client, QUEUES)
        await self._informer.run()

    async def _is_served(self) -> bool:
        try:
            return await self._client.discover(QUEUES.api_version, QUEUES.kind) is not None
        except KubeError:
            return False
