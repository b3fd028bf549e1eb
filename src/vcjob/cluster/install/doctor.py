"""Checks what a cluster can run and what is missing. Used by `vcjob doctor --on cluster`; changes nothing.

Each check returns a `Check`. What the account may not see, or an API error, becomes the result of that check; only a
cluster that does not answer at all is raised. One request creates a Job, as a dry run that the webhook must reject.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from vcjob.cluster.client.permissions import may
from vcjob.cluster.install.crd_check import read, warnings_about
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.objects.workload import settings_of
from vcjob.cluster.install.ownership import find, installed_namespace
from vcjob.cluster.install.probe import REMEDY, webhook_answers
from vcjob.cluster.install.rollout import is_rolled_out
from vcjob.cluster.install.settings import (
    CONFIGURATION,
    LEASE,
    NAME,
    NAMESPACE,
    SUPPORTED_KUBERNETES,
    Settings,
)
from vcjob.cluster.install.volcano import find_volcano, foreign_webhooks, warnings_about_webhooks
from vcjob.cluster.resources import JOBS
from vcjob.diagnosis.check import Check, missing, note, ok
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS
from vcjob.kube.errors import Forbidden, KubeError

_INSTALL = "`vcjob install`"


async def examine(
    client: Client, namespace: str, controller_namespace: str | None = None
) -> AsyncIterator[Check]:
    """Yield one check after the other, for Jobs in `namespace`. Raises only if no cluster answers."""
    yield _version(await client.version(), client.config.server)
    yield await _rights(client, namespace)
    settings = await installed_settings(client, controller_namespace)
    for topic, check in (
        ("Jobs", _definition),
        ("controller", _controller),
        ("webhook", _webhook),
        ("gang", _gang),
        ("others", _others),
    ):
        try:
            yield await check(client, settings, namespace)
        except Forbidden as error:
            yield note(topic, f"this account may not see it: {error.server_message}")
        except KubeError as error:
            yield missing(topic, error.message, error.hint)


async def installed_settings(client: Client, controller_namespace: str | None) -> Settings:
    """How the controller was installed, as far as this account may see it; else the defaults."""
    try:
        where = controller_namespace or await installed_namespace(client) or NAMESPACE
    except KubeError:
        where = NAMESPACE
    try:
        return settings_of(await client.get(DEPLOYMENTS, NAME, where))
    except KubeError:
        return Settings(namespace=where)


def _version(version: str, server: str) -> Check:
    try:
        found = _minor(version)
    except ValueError:
        return note("cluster", f"{server} has an unknown version: {version}")
    oldest = SUPPORTED_KUBERNETES[0]
    if found < _minor(oldest):
        return note("cluster", f"{server} is Kubernetes {version}; versions before {oldest} are not tested")
    return ok("cluster", f"{server} is Kubernetes {version}")


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".")[:2])


async def _rights(client: Client, namespace: str) -> Check:
    if await may(client, JOBS.group, JOBS.plural, "create", namespace):
        return ok("rights", f"this account may create Jobs in namespace {namespace}")
    return missing(
        "rights",
        f"this account may not create Jobs in namespace {namespace}",
        f"request the right to create jobs.{JOBS.group} (ClusterRole `edit` has it), or choose another namespace",
    )


async def _definition(client: Client, _: Settings, __: str) -> Check:
    definition = await read(client, crds.JOBS)
    if definition.owner == "nobody":
        return missing("Jobs", "this cluster does not know Jobs of batch.volcano.sh", _INSTALL)
    for warning in warnings_about(definition):
        return note("Jobs", warning)
    owner = "vcjob's" if definition.owner == "vcjob" else "another program's (Volcano's)"
    return ok("Jobs", f"the definition of Jobs is {owner} and has every field")


async def _controller(client: Client, settings: Settings, namespace: str) -> Check:
    deployment = await find(client, DEPLOYMENTS, NAME, settings.namespace)
    lease = await find(client, LEASES, LEASE, settings.namespace) or {}
    spec: dict[str, Any] = lease.get("spec") or {}
    holder = spec.get("holderIdentity")
    leads = bool(holder) and _seconds_since(spec.get("renewTime")) < float(
        spec.get("leaseDurationSeconds") or 15
    )
    if leads and settings.namespaces and namespace not in settings.namespaces:
        return missing(
            "controller",
            f"does not serve namespace {namespace}: it serves {', '.join(settings.namespaces)} only",
            f"choose one of these namespaces, or `vcjob install --watch-namespace {namespace}` with the others",
        )
    if leads and (deployment is None or is_rolled_out(deployment)):
        return ok("controller", f"runs in namespace {settings.namespace}; {holder} leads")
    if leads:
        return note("controller", f"{holder} leads, but not every replica is available")
    if deployment is None:
        return missing("controller", f"is not installed in namespace {settings.namespace}", _INSTALL)
    return missing(
        "controller",
        "is installed, but none of its replicas leads",
        f"`kubectl -n {settings.namespace} logs deploy/{NAME}` says why",
    )


def _seconds_since(moment: str | None) -> float:
    if not moment:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


async def _webhook(client: Client, settings: Settings, namespace: str) -> Check:
    found = await find(client, MUTATING_WEBHOOKS, CONFIGURATION)
    if found is None:
        return note("webhook", "off: the controller rejects bad Jobs after they were created")
    hooks = found.get("webhooks") or []
    if not all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks):
        return missing("webhook", "has no certificate yet", "the controller creates it when it runs")
    if settings.namespaces and namespace not in settings.namespaces:
        return note("webhook", f"is not called for Jobs in namespace {namespace}")
    if await webhook_answers(client, namespace):
        return ok("webhook", "answers the API server")
    if any(hook.get("failurePolicy") == "Fail" for hook in hooks):
        return missing(
            "webhook",
            "does not answer the API server, which refuses every Job until it does (failurePolicy Fail)",
            REMEDY,
        )
    return missing(
        "webhook",
        "does not answer the API server: a dry run of an invalid Job was accepted (failurePolicy Ignore)",
        REMEDY,
    )


async def _gang(client: Client, settings: Settings, _: str) -> Check:
    schedulers = await find_volcano(client, settings)
    if schedulers.volcano_schedules:
        return ok("gang", "Volcano's scheduler is running: it places Jobs as gangs")
    if schedulers.serves_coscheduling:
        return ok("gang", "the coscheduling plugin is available: it places Jobs as gangs")
    return note(
        "gang",
        "no gang scheduler is running: the pods of a Job are placed one by one, and a pod that cannot be placed is reported",
    )


async def _others(client: Client, settings: Settings, _: str) -> Check:
    schedulers = await find_volcano(client, settings)
    try:
        schedulers.check_job_controller()
    except BackendError as error:
        return missing("others", error.message, error.hint)
    for warning in warnings_about_webhooks(await foreign_webhooks(client)):
        return note("others", warning)
    if settings.beside_volcano:
        return ok("others", "installed with --beside-volcano: Volcano's job controller is not checked")
    return ok("others", "no other controller handles Jobs")
