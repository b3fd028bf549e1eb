"""Whether the API server really asks our webhook: a Job that makes no sense is tried, and not stored."""

from __future__ import annotations

import asyncio
import time

from vcjob.cluster.install.settings import Settings
from vcjob.cluster.resources import JOBS
from vcjob.kube.api.client import Client
from vcjob.kube.errors import Forbidden, KubeError

REMEDY = "the API server must reach the pods of Service vcjob-webhook on port 8443"
#: New webhooks and addresses take the API server and the nodes a moment, not minutes.
_PATIENCE = 30.0
_PAUSE = 0.5


async def webhook_answers(client: Client, namespace: str) -> bool:
    """Whether our webhook objects to a Job that any schema would accept, tried as a dry run."""
    pod = {"containers": [{"name": "main", "image": "none"}]}
    spec = {
        "plugins": {"pytorch": ["--port=none"]},
        "tasks": [{"name": "master", "replicas": 1, "template": {"spec": pod}}],
    }
    body = JOBS.manifest("vcjob-doctor", namespace, spec=spec)
    try:
        await client.create(JOBS, body, namespace, dry_run=True)
    except Forbidden:
        raise
    except KubeError as error:
        return "jobs.vcjob.io" in error.message and "denied" in error.message
    return False


async def wait_for_webhook(client: Client, settings: Settings) -> list[str]:
    """Return when it answers, or after a while with a note that it does not."""
    if not settings.webhook:
        return []
    namespace = settings.namespaces[0] if settings.namespaces else settings.namespace
    deadline = time.monotonic() + _PATIENCE
    try:
        while not await webhook_answers(client, namespace):
            if time.monotonic() > deadline:
                return [
                    f"the webhook does not answer the API server yet, so bad Jobs are not refused at once: {REMEDY}"
                ]
            await asyncio.sleep(_PAUSE)
    except Forbidden:
        pass  # this account may not try a Job
    return []
