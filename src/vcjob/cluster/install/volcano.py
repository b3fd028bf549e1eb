"""Finds Volcano's own job controller, schedulers and webhooks in a cluster. Reads only.

Used by install, which refuses to run next to Volcano's job controller, and by doctor. It uses the controller's own
`Schedulers`, so both see the same. API errors are raised.
"""

from __future__ import annotations

import asyncio

from vcjob.cluster.controller.cache.informers import wait_synced
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.install.ownership import is_part_of_vcjob
from vcjob.cluster.install.settings import Settings
from vcjob.cluster.resources import JOB_GROUP
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import LEASES, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Document


async def find_volcano(client: Client, settings: Settings) -> Schedulers:
    """Volcano's components as the controller itself would see them now."""
    options = ControllerOptions(
        volcano_namespace=settings.volcano_namespace, beside_volcano=settings.beside_volcano
    )
    await client.list(LEASES, settings.volcano_namespace)  # raises Forbidden at once; an informer would retry
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
    """The webhook configurations about Jobs that do not belong to vcjob, whoever installed it."""
    found: list[str] = []
    for kind in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        for configuration in await client.list(kind):
            if not is_part_of_vcjob(configuration) and _concerns_jobs(configuration):
                found.append(f"{kind.kind} {configuration['metadata']['name']}")
    return found


def _concerns_jobs(configuration: Document) -> bool:
    return any(
        JOB_GROUP in (rule.get("apiGroups") or []) and "jobs" in (rule.get("resources") or [])
        for hook in configuration.get("webhooks") or []
        for rule in hook.get("rules") or []
    )


def warnings_about_webhooks(names: list[str]) -> list[str]:
    if not names:
        return []
    return [
        f"other webhooks also handle Jobs ({', '.join(names)}). Volcano's apply Volcano's rules before vcjob's "
        "webhook is called: they change `maxRetry: 0` to 3, do not know spec.suspend and "
        "spec.activeDeadlineSeconds, and while Volcano's webhook does not answer, no Job can be created. Delete "
        "them if Volcano's job controller is switched off permanently"
    ]
