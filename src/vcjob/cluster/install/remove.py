"""Removes an installation. What belongs to somebody else stays, and Jobs stay unless their deletion is requested.

The verb `vcjob uninstall` calls `uninstall`. Raises `BackendError` before anything is removed where Helm manages the
installation or it is in another namespace, and where something that was deleted is still there after a minute.
"""

from __future__ import annotations

from vcjob.cluster.install.apply import Change, OnChange, Report, installed_objects
from vcjob.cluster.install.crd_check import was_replaced
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.ownership import find, is_ours, refuse_if_helm_manages_it, refuse_other_namespace
from vcjob.cluster.install.settings import LEASE, SELECTOR
from vcjob.cluster.install.waiting import Progress, wait_until
from vcjob.cluster.resources import JOBS
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.discovery import deletable_kinds
from vcjob.kube.api.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    NAMESPACES,
    PODS,
    Document,
    Resource,
    resource,
)
from vcjob.kube.errors import ApiError, NotFound

#: Kinds whose objects Kubernetes derives from others, or that nobody keeps: they show no use of a namespace.
_DERIVED_KINDS = frozenset({"events", "endpoints", "endpointslices", "leases"})
#: Kubernetes puts these into every namespace.
_IN_EVERY_NAMESPACE = frozenset({("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")})
_WAIT_SECONDS = 60.0


async def uninstall(
    client: Client,
    namespace: str,
    *,
    delete_jobs: bool = False,
    keep_crds: bool = False,
    on_change: OnChange = lambda _: None,
    progress: Progress = lambda _: None,
) -> Report:
    """Remove the installation. Definitions are removed only where they are ours and no object of their kind is left."""
    await refuse_if_helm_manages_it(client, "uninstall")
    await refuse_other_namespace(client, namespace, "uninstall")
    changes: list[Change] = []
    notes: list[str] = []

    def record(change: Change) -> None:
        changes.append(change)
        on_change(change)

    if delete_jobs:
        count = await _delete_jobs(client, progress)
        if count:
            record(Change(_jobs(count), "", "removed"))
    for kind, found in await installed_objects(client, namespace):
        metadata = found["metadata"]
        if await client.delete(kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"]):
            record(Change(kind.kind, metadata["name"], "removed"))
    await _wait_for_pods(client, namespace, progress)
    await client.delete(LEASES, LEASE, namespace)
    for name in crds.NAMES:
        if change := await _definition(client, name, notes, progress, keep=keep_crds):
            record(change)
    if change := await _namespace(client, namespace, notes, progress):
        record(change)
    return Report(changes, notes)


async def _delete_jobs(client: Client, progress: Progress) -> int:
    """Delete every Job and wait until they are gone (the garbage collector deletes their pods)."""
    if await client.discover(JOBS.api_version, JOBS.kind) is None:
        return 0
    found = await client.list(JOBS)
    for job in found:
        metadata = job["metadata"]
        await client.delete(JOBS, metadata["name"], metadata["namespace"], uid=metadata["uid"])

    async def are_gone() -> bool:
        return not await client.list(JOBS)

    if not await wait_until(are_gone, f"{_jobs(len(found))} to be deleted", _WAIT_SECONDS, progress):
        left = await client.list(JOBS)
        raise BackendError(
            f"{_jobs(len(left))} {'is' if len(left) == 1 else 'are'} still terminating, for example {left[0]['metadata']['name']}"
            if left
            else "the Jobs took too long to be deleted",
            hint="another program's finalizer may hold them; nothing else was removed",
        )
    return len(found)


def _jobs(count: int) -> str:
    return "1 Job" if count == 1 else f"{count} Jobs"


async def _wait_for_pods(client: Client, namespace: str, progress: Progress) -> None:
    """Until the controller's pods have ended: then nothing of ours writes any more."""
    left: list[Document] = []

    async def are_gone() -> bool:
        left[:] = await client.list(PODS, namespace, labels=SELECTOR)
        return not left

    if not await wait_until(are_gone, "the controller's pods to end", _WAIT_SECONDS, progress):
        names = ", ".join(pod["metadata"]["name"] for pod in left)
        raise BackendError(
            f"pods of the controller in namespace {namespace} have not ended after {_WAIT_SECONDS:.0f} s: {names}",
            hint="the Lease and the definitions were not removed, because these pods may still write; once they have "
            "ended, or after `kubectl delete pod --force` where their node is lost, run `vcjob uninstall` again",
        )


async def _definition(
    client: Client, name: str, notes: list[str], progress: Progress, *, keep: bool
) -> Change | None:
    found = await find(client, CUSTOM_RESOURCE_DEFINITIONS, name)
    if found is None or not is_ours(found):
        return None
    if keep:
        return Change("CustomResourceDefinition", name, "kept")
    if was_replaced(found):
        notes.append(f"the definition {name} replaced another one and stays")
        return Change("CustomResourceDefinition", name, "kept")
    left = await client.list(_kind_of(found))
    if left:
        count = "1 object of its kind exists" if len(left) == 1 else f"{len(left)} objects of its kind exist"
        way = "; `vcjob uninstall --delete-jobs` removes Jobs and definition" if name == crds.JOBS else ""
        notes.append(f"the definition {name} stays because {count}{way}")
        return Change("CustomResourceDefinition", name, "kept")
    await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name, uid=found["metadata"]["uid"])
    await _wait_gone(client, CUSTOM_RESOURCE_DEFINITIONS, name, progress)
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


async def _namespace(client: Client, namespace: str, notes: list[str], progress: Progress) -> Change | None:
    found = await find(client, NAMESPACES, namespace)
    if found is None or not is_ours(found):
        return None
    if reason := await _reason_to_keep(client, namespace):
        notes.append(f"the namespace {namespace} stays because {reason}")
        return Change("Namespace", namespace, "kept")
    await client.delete(NAMESPACES, namespace, uid=found["metadata"]["uid"])
    await _wait_gone(client, NAMESPACES, namespace, progress)
    return Change("Namespace", namespace, "removed")


async def _reason_to_keep(client: Client, namespace: str) -> str | None:
    """What in the namespace belongs to somebody else. What cannot be listed may be somebody else's too."""
    try:
        kinds = await deletable_kinds(client)
    except ApiError as error:
        return f"the kinds of objects that it may contain cannot be listed: {error.message}"
    for kind in kinds:
        if kind.plural in _DERIVED_KINDS:
            continue
        try:
            items = await client.list(kind.read_metadata_as(Document), namespace)
        except NotFound:
            continue  # the definition of this kind was deleted
        except ApiError as error:
            return f"its {kind.plural} cannot be listed: {error.message}"
        for item in items:
            name = item["metadata"]["name"]
            if not is_ours(item) and (kind.plural, name) not in _IN_EVERY_NAMESPACE:
                return f"it contains somebody else's {kind.kind} {name}"
    return None


async def _wait_gone(client: Client, kind: Resource[Document], name: str, progress: Progress) -> None:
    async def is_gone() -> bool:
        return await find(client, kind, name) is None

    if not await wait_until(is_gone, f"the {kind.kind} {name} to be deleted", _WAIT_SECONDS, progress):
        raise BackendError(
            f"the {kind.kind} {name} is still terminating after {_WAIT_SECONDS:.0f} s",
            hint=f"`kubectl get {kind.plural} {name} -o yaml` shows in its conditions and finalizers what it waits for; "
            "then run `vcjob uninstall` again",
        )
