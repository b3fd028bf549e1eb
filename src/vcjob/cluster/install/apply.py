"""Installs and upgrades the controller by server-side apply. Everything is checked before anything is written.

The verb `vcjob install` calls `install`. What belongs to somebody else is never changed: a definition that is not
ours is kept, an object of one of our names without our label is a reason to refuse (`BackendError`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from vcjob.cluster.install.conflicts import check_conflicts, conflict_error, describe
from vcjob.cluster.install.intended import Intended, intended_definitions, intended_objects
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.ownership import refuse_if_helm_manages_it, refuse_other_namespace
from vcjob.cluster.install.probe import wait_for_owner_references, wait_for_webhook
from vcjob.cluster.install.rollout import wait_for_rollout
from vcjob.cluster.install.settings import SELECTOR, Settings
from vcjob.cluster.install.volcano import find_volcano, foreign_webhooks, warnings_about_webhooks
from vcjob.cluster.install.waiting import Progress, wait_until
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
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
)
from vcjob.kube.errors import Conflict

Outcome: TypeAlias = Literal["created", "changed", "unchanged", "kept", "removed"]
OnChange: TypeAlias = Callable[["Change"], None]

#: In the order of removal: first what the API server calls, then what runs, then its rights.
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
    """What happened to one object.

    Reported as it happens, so that the user sees how far an installation or removal got; its text form is a line of
    the output.
    """

    #: The kind; for several objects together how many there are, such as `3 Jobs`.
    kind: str
    #: Empty for several objects together.
    name: str
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip() + f": {self.outcome}"


class Report(msgspec.Struct, frozen=True):
    """All changes of one installation or removal, and warnings for the user.

    `install` and `uninstall` return it; the command line prints the warnings at the end.
    """

    changes: list[Change]
    notes: list[str]


async def install(
    client: Client,
    settings: Settings,
    *,
    replace_crds: bool = False,
    force: bool = False,
    wait_seconds: float | None = None,
    on_change: OnChange = lambda _: None,
    progress: Progress = lambda _: None,
) -> Report:
    """Install, or update an installation. Running Jobs are not affected."""
    await refuse_if_helm_manages_it(client, "upgrade")
    (await find_volcano(client, settings)).check_job_controller()
    notes = warnings_about_webhooks(await foreign_webhooks(client))
    intended, warnings = await intended_definitions(client, replace=replace_crds)
    notes += warnings
    await refuse_other_namespace(client, settings.namespace, "install")
    intended += await intended_objects(client, settings)
    if force:
        intended = [each.forced() for each in intended]
    else:
        intended = await check_conflicts(client, intended)
    changes: list[Change] = []

    def record(change: Change) -> None:
        changes.append(change)
        on_change(change)

    for each in intended:
        record(await _apply(client, each))
    await _wait_established(client, progress)
    for change in await _prune(client, settings, intended):
        record(change)
    if wait_seconds:
        await wait_for_rollout(client, settings, wait_seconds, progress)
        notes += await wait_for_webhook(client, settings, progress)
        notes += await wait_for_owner_references(client, settings, progress)
    return Report(changes, notes)


async def _apply(client: Client, each: Intended) -> Change:
    if each.keep:
        return Change(each.resource.kind, each.name, "kept")
    try:
        after = await client.apply(each.resource, each.name, each.body, each.namespace, force=each.force)
    except Conflict as error:  # changed since it was checked
        raise conflict_error(describe(each, error)) from error
    if each.found is None:
        return Change(each.resource.kind, each.name, "created")
    same = _version(each.found) == _version(after)
    return Change(each.resource.kind, each.name, "unchanged" if same else "changed")


async def _prune(client: Client, settings: Settings, intended: list[Intended]) -> list[Change]:
    """Remove what an earlier installation had and this one has not: above all, rights."""
    wanted = {(each.resource.kind, each.namespace, each.name) for each in intended}
    removed: list[Change] = []
    for kind, found in await installed_objects(client, settings.namespace):
        metadata = found["metadata"]
        key = (kind.kind, metadata.get("namespace"), metadata["name"])
        if key not in wanted and await client.delete(
            kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"]
        ):
            removed.append(Change(kind.kind, metadata["name"], "removed"))
    return removed


async def installed_objects(client: Client, namespace: str) -> list[tuple[Resource[Document], Document]]:
    """Every object of the installation but definitions and namespace; roles may be in any namespace."""
    found: list[tuple[Resource[Document], Document]] = []
    for kind in KINDS:
        everywhere = not kind.namespaced or kind in (ROLES, ROLE_BINDINGS)
        items = await client.list(kind, None if everywhere else namespace, labels=SELECTOR)
        found += [(kind, item) for item in items]
    return found


async def _wait_established(client: Client, progress: Progress) -> None:
    for name in crds.NAMES:

        async def is_served(name: str = name) -> bool:
            return _is_established(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name))

        if not await wait_until(is_served, f"the definition {name}", _ESTABLISH_SECONDS, progress):
            raise BackendError(
                f"the API server does not accept the definition {name}",
                hint=f"`kubectl describe crd {name}` says why",
            )


def _is_established(definition: Document) -> bool:
    conditions: list[dict[str, Any]] = (definition.get("status") or {}).get("conditions") or []
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


def _version(found: Document) -> str:
    return str((found.get("metadata") or {}).get("resourceVersion"))
