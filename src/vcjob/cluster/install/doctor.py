"""What a cluster can run, and what is missing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

from vcjob.cluster.install.crd_check import look, notes_on
from vcjob.cluster.install.objects import crds
from vcjob.cluster.install.probe import REMEDY, webhook_answers
from vcjob.cluster.install.rollout import is_rolled_out
from vcjob.cluster.install.settings import CONFIGURATION, LEASE, NAME, Settings
from vcjob.cluster.install.volcano import foreign_webhooks, look_for_volcano, note_on_webhooks
from vcjob.cluster.resources import JOBS
from vcjob.diagnosis.check import Check, missing, note, ok
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import ACCESS_REVIEWS, DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS
from vcjob.kube.errors import Forbidden, KubeError, NotFound

#: The oldest Kubernetes that is looked after: the newest four minors when this was released.
OLDEST = (1, 32)
_INSTALL = "`vcjob install`"


async def examine(client: Client, settings: Settings) -> AsyncIterator[Check]:
    """One check after the other. Raises only where there is no cluster to ask."""
    yield _version(await client.version(), client.config.server)
    yield await _rights(client)
    for topic, look_at in (
        ("Jobs", _kinds),
        ("controller", _controller),
        ("webhook", _webhook),
        ("gang", _gang),
        ("others", _others),
    ):
        try:
            yield await look_at(client, settings)
        except Forbidden as error:
            yield note(topic, f"cannot be seen by this account: {error.server_message}")
        except KubeError as error:
            yield missing(topic, error.message, error.hint)


def _version(version: str, server: str) -> Check:
    try:
        found = tuple(int(part) for part in version.lstrip("v").split(".")[:2])
    except ValueError:
        return note("cluster", f"{server} is of version {version}, which says nothing to us")
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return note("cluster", f"{server} is Kubernetes {version}; nothing before {oldest} is tested")
    return ok("cluster", f"{server} is Kubernetes {version}")


async def _rights(client: Client) -> Check:
    asked = {"group": JOBS.group, "resource": JOBS.plural, "verb": "create", "namespace": client.namespace}
    answer = await client.create(
        ACCESS_REVIEWS,
        {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "spec": {"resourceAttributes": asked},
        },
    )
    if (answer.get("status") or {}).get("allowed"):
        return ok("rights", f"this account may create Jobs in namespace {client.namespace}")
    return missing(
        "rights",
        f"this account may not create Jobs in namespace {client.namespace}",
        f"ask for the right to create jobs.{JOBS.group}, or choose another namespace",
    )


async def _kinds(client: Client, _: Settings) -> Check:
    served = await look(client, crds.JOBS)
    if served.whose == "nobody":
        return missing("Jobs", "this cluster does not know Jobs of batch.volcano.sh", _INSTALL)
    whose = "ours" if served.whose == "ours" else "another's (Volcano's)"
    for words in notes_on(served):
        return note("Jobs", words)
    return ok("Jobs", f"the definition of Jobs is {whose} and knows every field")


async def _controller(client: Client, settings: Settings) -> Check:
    try:
        deployment = await client.get(DEPLOYMENTS, NAME, settings.namespace)
    except NotFound:
        deployment = None
    try:
        lease = await client.get(LEASES, LEASE, settings.namespace)
    except NotFound:
        lease = {}
    spec: dict[str, Any] = lease.get("spec") or {}
    holder = spec.get("holderIdentity")
    leads = bool(holder) and _seconds_since(spec.get("renewTime")) < float(
        spec.get("leaseDurationSeconds") or 15
    )
    if leads and (deployment is None or is_rolled_out(deployment)):
        return ok("controller", f"runs in namespace {settings.namespace}; {holder} leads")
    if leads:
        return note("controller", f"{holder} leads, but not every replica is available")
    if deployment is None:
        return missing("controller", f"there is none in namespace {settings.namespace}", _INSTALL)
    return missing(
        "controller",
        "is installed, but none of its replicas leads",
        f"`kubectl -n {settings.namespace} logs deploy/{NAME}` says why",
    )


def _seconds_since(moment: str | None) -> float:
    if not moment:
        return float("inf")
    return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()


async def _webhook(client: Client, _: Settings) -> Check:
    try:
        found = await client.get(MUTATING_WEBHOOKS, CONFIGURATION)
    except NotFound:
        return note("webhook", "off: bad Jobs are refused by the controller, after they were created")
    hooks = found.get("webhooks") or []
    if not all((hook.get("clientConfig") or {}).get("caBundle") for hook in hooks):
        return missing("webhook", "has no certificate yet", "the controller makes it when it runs")
    if await webhook_answers(client, client.namespace):
        return ok("webhook", "answers the API server")
    return missing(
        "webhook",
        "does not answer the API server: a Job that makes no sense was let through (as a trial, not stored)",
        REMEDY,
    )


async def _gang(client: Client, settings: Settings) -> Check:
    schedulers = await look_for_volcano(client, settings)
    if schedulers.volcano_schedules:
        return ok("gang", "Volcano's scheduler is alive: Jobs are placed as gangs")
    if schedulers.serves_coscheduling:
        return ok("gang", "coscheduling is served: Jobs are placed as gangs")
    return note(
        "gang",
        "no gang scheduler is alive: the pods of a Job are placed one by one, and one that cannot be placed says so",
    )


async def _others(client: Client, settings: Settings) -> Check:
    schedulers = await look_for_volcano(client, settings)
    try:
        schedulers.check_job_controller()
    except BackendError as error:
        return missing("others", error.message, error.hint)
    for words in note_on_webhooks(await foreign_webhooks(client)):
        return note("others", words)
    return ok("others", "no other controller looks after Jobs")
