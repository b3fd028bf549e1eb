"""Uninstalling: what is ours goes, what is anybody else's stays, and no Job is lost unless asked for."""

from __future__ import annotations

import asyncio
import time

from vcjob.cluster.install.apply import Change, Report, Tell, is_ours, ours
from vcjob.cluster.install.crd_check import was_replaced
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.settings import LEASE, SELECTOR
from vcjob.cluster.resources import JOBS
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    Document,
    Resource,
    resource,
)
from vcjob.kube.errors import NotFound

#: What shows that somebody else uses a namespace.
_TELLING = (PODS, DEPLOYMENTS, SERVICES, CONFIG_MAPS, SECRETS, PERSISTENT_VOLUME_CLAIMS)
#: Kubernetes puts these into every namespace.
_EVERYWHERE = frozenset({"kube-root-ca.crt"})
_GONE_SECONDS = 60.0


async def uninstall(
    client: Client,
    namespace: str,
    *,
    delete_jobs: bool = False,
    keep_crds: bool = False,
    tell: Tell = lambda _: None,
) -> Report:
    """Remove the installation. Definitions go only where they are ours and nothing of their kind is left."""
    changes: list[Change] = []
    notes: list[str] = []

    def note(change: Change) -> None:
        changes.append(change)
        tell(change)

    if delete_jobs:
        count = await _delete_jobs(client)
        if count:
            note(Change("Jobs", f"{count} in all", "removed"))
    for kind, found in await ours(client, namespace):
        metadata = found["metadata"]
        if await client.delete(kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"]):
            note(Change(kind.kind, metadata["name"], "removed"))
    await _await_pods(client, namespace)
    await _delete_lease(client, namespace)
    for name in crds.NAMES:
        if change := await _definition(client, name, notes, keep=keep_crds):
            note(change)
    if change := await _namespace(client, namespace, notes):
        note(change)
    return Report(changes, notes)


async def _delete_jobs(client: Client) -> int:
    """Ask for the end of every Job, and wait until they are gone (their pods follow by themselves)."""
    if await client.discover(JOBS.api_version, JOBS.kind) is None:
        return 0
    found = await client.list(JOBS)
    for job in found:
        metadata = job["metadata"]
        await client.delete(JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
    deadline = time.monotonic() + _GONE_SECONDS
    while left := await client.list(JOBS):
        if time.monotonic() > deadline:
            raise BackendError(
                f"{len(left)} Jobs do not end, {left[0]['metadata']['name']} for one",
                hint="a finalizer of somebody else's may hold them; nothing else was removed",
            )
        await asyncio.sleep(0.2)
    return len(found)


async def _delete_lease(client: Client, namespace: str) -> None:
    try:
        await client.delete(LEASES, LEASE, namespace)
    except NotFound:
        pass


async def _await_pods(client: Client, namespace: str) -> None:
    """The controller's pods have ended, so that nothing of ours is written any more."""
    deadline = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < deadline:
        if not await client.list(PODS, namespace, labels=SELECTOR):
            return
        await asyncio.sleep(0.2)


async def _definition(client: Client, name: str, notes: list[str], *, keep: bool) -> Change | None:
    try:
        found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return None
    if not is_ours(found):
        return None
    if keep:
        return Change("CustomResourceDefinition", name, "kept")
    if was_replaced(found):
        notes.append(f"the definition {name} took the place of another one and stays")
        return Change("CustomResourceDefinition", name, "kept")
    left = await client.list(_kind_of(found))
    if left:
        words = "is 1 object" if len(left) == 1 else f"are {len(left)} objects"
        way = "; `vcjob uninstall --delete-jobs` removes Jobs and definition" if name == crds.JOBS else ""
        notes.append(f"the definition {name} stays, for there {words} of its kind{way}")
        return Change("CustomResourceDefinition", name, "kept")
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name, uid=found["metadata"]["uid"])
    await _wait_gone(client, CUSTOM_RESOURCE_DEFINITIONS, name)
    return Change("CustomResourceDefinition", name, "removed")


def _kind_of(definition: Document) -> Resource[Document]:
    spec = definition["spec"]
    version = next(found["name"] for found in spec["versions"] if found.get("served"))
    return resource(
        spec["group"],
        version,
        spec["names"]["plural"],
        spec["names"]["kind"],
        namespaced=spec["scope"] == "Namespaced",
    )


async def _namespace(client: Client, namespace: str, notes: list[str]) -> Change | None:
    try:
        found = await client.get(NAMESPACES, namespace)
    except NotFound:
        return None
    if not is_ours(found):
        return None
    for kind in _TELLING:
        for item in await client.list(kind, namespace):
            name = item["metadata"]["name"]
            if not is_ours(item) and name not in _EVERYWHERE:
                notes.append(
                    f"the namespace {namespace} stays, for somebody else's {kind.kind} {name} is in it"
                )
                return Change("Namespace", namespace, "kept")
    await client.delete(NAMESPACES, namespace, uid=found["metadata"]["uid"])
    await _wait_gone(client, NAMESPACES, namespace)
    return Change("Namespace", namespace, "removed")


async def _wait_gone(client: Client, kind: Resource[Document], name: str) -> None:
    deadline = time.monotonic() + _GONE_SECONDS
    while time.monotonic() < deadline:
        try:
            await client.get(kind, name)
        except NotFound:
            return
        await asyncio.sleep(0.2)
