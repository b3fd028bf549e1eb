"""Tries whether Jobs can run: dry-run requests that show whether the API server calls the webhook and knows Jobs.

Used by install, which waits until both work, and by doctor. Nothing is stored in the cluster.
"""

from __future__ import annotations

from vcjob.cluster.install.settings import NAME, Settings
from vcjob.cluster.install.waiting import Progress, wait_until
from vcjob.cluster.resources import JOBS
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CONFIG_MAPS
from vcjob.kube.errors import Forbidden, KubeError

REMEDY = "the API server must reach the pods of Service vcjob-webhook on port 8443"
#: New webhooks, addresses and definitions reach API servers and nodes within seconds.
_SECONDS = 30.0


async def webhook_answers(client: Client, namespace: str) -> bool:
    """Whether our webhook refuses a Job that any schema would accept, in a dry run."""
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


async def wait_for_webhook(client: Client, settings: Settings, progress: Progress) -> list[str]:
    """Return when it answers, or after a while with a note that it does not."""
    if not settings.webhook:
        return []
    namespace = settings.namespaces[0] if settings.namespaces else settings.namespace
    try:
        if await wait_until(
            lambda: webhook_answers(client, namespace), "the webhook to answer", _SECONDS, progress
        ):
            return []
    except Forbidden:
        return []  # this account may not create a Job
    return [
        f"the webhook does not answer the API server yet, so bad Jobs are not refused on creation: {REMEDY}"
    ]


async def owner_references_work(client: Client, namespace: str) -> bool:
    """Whether the API server accepts an object that a Job owns.

    Its admission plugin OwnerReferencesPermissionEnforcement learns new kinds only some seconds after they are
    served; until then the controller could not create a single pod.
    """
    owner = {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "name": NAME,
        "uid": NAME,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    body = CONFIG_MAPS.manifest("vcjob-install", namespace)
    body["metadata"]["ownerReferences"] = [owner]
    try:
        await client.create(CONFIG_MAPS, body, namespace, dry_run=True)
    except KubeError as error:
        return "RESTMapping" not in error.message
    return True


async def wait_for_owner_references(client: Client, settings: Settings, progress: Progress) -> list[str]:
    """Return when a Job can own objects, or after a while with a note that it cannot yet."""
    namespace = settings.namespace
    if await wait_until(
        lambda: owner_references_work(client, namespace), "the API server to know Jobs", _SECONDS, progress
    ):
        return []
    return ["the API server does not accept objects that Jobs own yet, so the first Job starts later"]
