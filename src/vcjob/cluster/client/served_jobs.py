"""Whether a controller serves a Job that may have no state yet.

The first status of a Job may be written some seconds after its objects, because it says no more than they do.
`jobs` asks before it deletes a Job that nobody serves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from vcjob.cluster.resources import (
    PARTIAL_CONFIG_MAPS,
    PARTIAL_GROUPS,
    PARTIAL_PODS,
    controller_of,
)
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import OwnerReference
from vcjob.kube.api.resources import Document, Resource
from vcjob.kube.errors import Forbidden, NotFound
from vcjob.plan.names import JOB_NAME, pod_group_name
from vcjob.plugins.svc import config_map_name
from vcjob.spec.job import Job


async def is_served(client: Client, document: Document) -> bool:
    """Whether it has a state, or a ConfigMap, PodGroup or pods that it owns. What the user may not read does not count."""
    if (document.get("status") or {}).get("state"):
        return True
    job = Job(document)
    found = await asyncio.gather(
        _owners(client, PARTIAL_CONFIG_MAPS, config_map_name(job), job.namespace),
        _owners(client, PARTIAL_GROUPS, pod_group_name(job), job.namespace),
        _owners_of_pods(client, job),
    )
    return any(_is_owned(owners, job) for part in found for owners in part)


async def _owners(
    client: Client, resource: Resource[Any], name: str, namespace: str
) -> list[tuple[OwnerReference, ...]]:
    try:
        return [(await client.get(resource, name, namespace)).metadata.owner_references]
    except (Forbidden, NotFound):
        return []


async def _owners_of_pods(client: Client, job: Job) -> Iterable[tuple[OwnerReference, ...]]:
    try:
        pods = await client.list(PARTIAL_PODS, job.namespace, labels=f"{JOB_NAME}={job.name}")
    except (Forbidden, NotFound):
        return []
    return [pod.metadata.owner_references for pod in pods]


def _is_owned(owners: tuple[OwnerReference, ...], job: Job) -> bool:
    owner = controller_of(owners)
    return owner is not None and owner.uid == job.uid
