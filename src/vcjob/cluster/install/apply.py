"""Installing and upgrading: everything is looked at before anything is written, and applied by the server.

What somebody else made is never touched: a definition that is not ours is kept, an object of one of our
names without our label is a reason to refuse.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from vcjob.cluster.install.crd_check import judge, notes_on, refuse_if_poor, was_replaced
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.manifests import controller_objects
from vcjob.cluster.install.objects.workload import namespace as namespace_manifest
from vcjob.cluster.install.probe import wait_for_webhook
from vcjob.cluster.install.rollout import wait_for_rollout
from vcjob.cluster.install.settings import MANAGED_BY, NAME, REPLACED, SELECTOR, Settings
from vcjob.cluster.install.volcano import foreign_webhooks, look_for_volcano, note_on_webhooks
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Document,
    Resource,
    known,
)
from vcjob.kube.errors import Conflict, NotFound

Outcome: TypeAlias = Literal["created", "changed", "unchanged", "kept", "removed"]
Tell: TypeAlias = Callable[["Change"], None]

#: In the order in which they go: first what the API server asks, then what runs, then what it may do.
KINDS: tuple[Resource[Document], ...] = (
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    NETWORK_POLICIES,
    SERVICES,
    SECRETS,
    ROLE_BINDINGS,
    ROLES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    SERVICE_ACCOUNTS,
    PRIORITY_CLASSES,
)
_ESTABLISH_SECONDS = 30.0


class Change(msgspec.Struct, frozen=True):
    """What became of one object."""

    kind: str
    name: str
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {self.outcome}"


class Intended(msgspec.Struct, frozen=True):
    resource: Resource[Document]
    body: Document
    found: Document | None
    keep: bool = False
    force: bool = False

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        found: str | None = self.body["metadata"].get("namespace")
        return found


class Report(msgspec.Struct, frozen=True):
    changes: list[Change]
    notes: list[str]


async def install(
    client: Client,
    settings: Settings,
    *,
    replace_crds: bool = False,
    force: bool = False,
    wait_seconds: float | None = None,
    tell: Tell = lambda _: None,
) -> Report:
    """Install, or bring an installation up to date. Jobs that run are not touched."""
    schedulers = await look_for_volcano(client, settings)
    schedulers.check_job_controller()
    notes = note_on_webhooks(await foreign_webhooks(client))
    intended = await _kinds(client, notes, replace=replace_crds)
    intended += await _objects(client, settings)
    changes: list[Change] = []

    def note(change: Change) -> None:
        changes.append(change)
        tell(change)

    for each in intended:
        note(await _apply(client, each, force=force))
    await _wait_established(client)
    for change in await _prune(client, settings, intended):
        note(change)
    if wait_seconds:
        await wait_for_rollout(client, settings, wait_seconds)
        notes += await wait_for_webhook(client, settings)
    return Report(changes, notes)


async def _kinds(client: Client, notes: list[str], *, replace: bool) -> list[Intended]:
    intended: list[Intended] = []
    for body in crds.definitions():
        name = body["metadata"]["name"]
        found = await _find(client, CUSTOM_RESOURCE_DEFINITIONS, name)
        served = judge(name, found) if found else None
        foreign = served is not None and served.whose == "theirs"
        if foreign and not replace:
            assert served is not None
            refuse_if_poor(served)
            notes += notes_on(served)
        if found and (foreign or was_replaced(found)):
            body["metadata"]["annotations"] = {REPLACED: "true"}
        intended.append(
            Intended(
                CUSTOM_RESOURCE_DEFINITIONS,
                body,
                found,
                keep=foreign and not replace,
                force=foreign and replace,
            )
        )
    return intended


async def _objects(client: Client, settings: Settings) -> list[Intended]:
    home = namespace_manifest(settings)
    found = await _find(client, NAMESPACES, settings.namespace)
    # A namespace that an administrator has made is the administrator's.
    intended = [Intended(NAMESPACES, home, found, keep=found is not None and not is_ours(found))]
    await _refuse_second_home(client, settings)
    for name in settings.namespaces:
        if await _find(client, NAMESPACES, name) is None:
            raise BackendError(
                f"there is no namespace {name} to serve", hint=f"`kubectl create namespace {name}`"
            )
    for body in controller_objects(settings):
        resource = known(body["apiVersion"], body["kind"])
        assert resource is not None
        each = Intended(resource, body, None)
        found = await _find(client, resource, each.name, each.namespace)
        if found is not None and not is_ours(found):
            raise BackendError(
                f"{resource.kind} {each.name} is there already and was not made by `vcjob install`, so it is left alone",
                hint="rename or delete it, or label it "
                f"{MANAGED_BY}=vcjob if it may become part of the installation",
            )
        intended.append(msgspec.structs.replace(each, found=found))
    return intended


async def _refuse_second_home(client: Client, settings: Settings) -> None:
    binding = await _find(client, CLUSTER_ROLE_BINDINGS, NAME)
    for subject in (binding or {}).get("subjects") or []:
        elsewhere = subject.get("namespace")
        if elsewhere and elsewhere != settings.namespace:
            raise BackendError(
                f"vcjob is installed in namespace {elsewhere} already, and a cluster needs it once",
                hint=f"upgrade it there (--namespace {elsewhere}), or `vcjob uninstall --namespace {elsewhere}` first",
            )


async def _apply(client: Client, each: Intended, *, force: bool) -> Change:
    if each.keep:
        return Change(each.resource.kind, each.name, "kept")
    try:
        after = await client.apply(
            each.resource, each.name, each.body, each.namespace, force=force or each.force
        )
    except Conflict as error:
        raise BackendError(
            f"{each.resource.kind} {each.name} was changed by somebody else: {error.server_message}",
            hint="undo that change, make it an option of `vcjob install`, or take the fields back with --force-conflicts",
        ) from error
    if each.found is None:
        return Change(each.resource.kind, each.name, "created")
    same = _version(each.found) == _version(after)
    return Change(each.resource.kind, each.name, "unchanged" if same else "changed")


async def _prune(client: Client, settings: Settings, intended: list[Intended]) -> list[Change]:
    """Remove what an earlier installation had and this one has not: rights above all."""
    wanted = {(each.resource.kind, each.namespace, each.name) for each in intended}
    removed: list[Change] = []
    for kind, found in await ours(client, settings.namespace):
        metadata = found["metadata"]
        key = (kind.kind, metadata.get("namespace"), metadata["name"])
        if key not in wanted and await client.delete(
            kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"]
        ):
            removed.append(Change(kind.kind, metadata["name"], "removed"))
    return removed


async def ours(client: Client, namespace: str) -> list[tuple[Resource[Document], Document]]:
    """Every object of the installation but definitions and namespace; roles may be in any namespace."""
    found: list[tuple[Resource[Document], Document]] = []
    for kind in KINDS:
        everywhere = not kind.namespaced or kind in (ROLES, ROLE_BINDINGS)
        items = await client.list(kind, None if everywhere else namespace, labels=SELECTOR)
        found += [(kind, item) for item in items]
    return found


async def _wait_established(client: Client) -> None:
    deadline = time.monotonic() + _ESTABLISH_SECONDS
    for name in crds.NAMES:
        while not _is_established(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)):
            if time.monotonic() > deadline:
                raise BackendError(
                    f"the definition {name} is not accepted by the API server",
                    hint=f"`kubectl describe crd {name}` says why",
                )
            await asyncio.sleep(0.2)


def _is_established(definition: Document) -> bool:
    conditions: list[dict[str, Any]] = (definition.get("status") or {}).get("conditions") or []
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


async def _find(
    client: Client, resource: Resource[Document], name: str, namespace: str | None = None
) -> Document | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFound:
        return None


def is_ours(found: Document) -> bool:
    return ((found.get("metadata") or {}).get("labels") or {}).get(MANAGED_BY) == "vcjob"


def _version(found: Document) -> str:
    return str((found.get("metadata") or {}).get("resourceVersion"))
