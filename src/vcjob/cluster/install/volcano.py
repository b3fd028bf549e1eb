"""Who else is there: Volcano's own job controller and its webhooks."""

from __future__ import annotations

import asyncio

from vcjob.cluster.controller.cache.informers import wait_synced
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.install.settings import MANAGED_BY, Settings
from vcjob.cluster.resources import JOB_GROUP
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Document


async def look_for_volcano(client: Client, settings: Settings) -> Schedulers:
    """What the controller itself would see of Volcano's parts, right now."""
    options = ControllerOptions(
        volcano_namespace=settings.volcano_namespace, beside_volcano=settings.beside_volcano
    )
    await client.list(LEASES, settings.volcano_namespace)  # says at once where that is not allowed
    schedulers = Schedulers(client, options)
    following = [asyncio.create_task(informer.run()) for informer in schedulers.informers]
    try:
        await wait_synced(schedulers.informers)
        await schedulers.discover()
        await schedulers.refresh()
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
    return schedulers


async def foreign_webhooks(client: Client) -> list[str]:
    """The names of webhook configurations of others that are asked about Jobs."""
    found: list[str] = []
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for configuration in await client.list(kind):
            metadata = configuration.get("metadata") or {}
            if (metadata.get("labels") or {}).get(MANAGED_BY) != "vcjob" and _is_asked_about_jobs(
                configuration
            ):
                found.append(f"{kind.kind} {metadata.get('name')}")
    return found


def _is_asked_about_jobs(configuration: Document) -> bool:
    return any(
        JOB_GROUP in (rule.get("apiGroups") or []) and "jobs" in (rule.get("resources") or [])
        for hook in configuration.get("webhooks") or []
        for rule in hook.get("rules") or []
    )


def note_on_webhooks(names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f"other webhooks are asked about Jobs too ({', '.join(names)}). Volcano's judge by Volcano's rules before "
        "ours are asked: they make `maxRetry: 0` a 3, do not know spec.suspend and spec.activeDeadlineSeconds, and "
        "where Volcano's webhook does not answer, no Job can be created. Delete them if Volcano's job controller "
        "is switched off for good"
    ]
