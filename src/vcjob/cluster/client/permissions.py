"""Which verbs an account may use in a namespace, answered by the API server before anything is tried.

Used by the SDK for the web page, which disables what is not allowed. A server that does not answer counts as allowed:
the verb itself then fails with the server's own message.
"""

from __future__ import annotations

import asyncio

from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.resources import COMMANDS, JOBS
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import ACCESS_REVIEWS

#: The right that each verb needs: the resource and the verb of the API.
_NEEDS = {
    "run": (JOBS, "create"),
    "delete": (JOBS, "delete"),
    "suspend": (COMMANDS, "create"),
    "resume": (COMMANDS, "create"),
    "restart": (COMMANDS, "create"),
    "complete": (COMMANDS, "create"),
    "stop": (COMMANDS, "create"),
}


async def denied_verbs(jobs: JobClient, namespace: str) -> dict[str, str]:
    """The verbs of vcjob that the caller may not use, each with the reason."""
    rights = sorted({(kind.group, kind.plural, verb) for kind, verb in _NEEDS.values()})
    asked = (may(jobs.client, *right, namespace) for right in rights)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = {right for right, allowed in zip(rights, answers, strict=True) if allowed is False}
    return {
        name: f"you may not {verb} {kind.plural}.{kind.group} in the namespace {namespace!r}"
        for name, (kind, verb) in _NEEDS.items()
        if (kind.group, kind.plural, verb) in refused
    }


async def may(client: Client, group: str, plural: str, verb: str, namespace: str) -> bool:
    """Whether the caller has a right in a namespace."""
    asked = {"group": group, "resource": plural, "verb": verb, "namespace": namespace}
    review = {
        "apiVersion": ACCESS_REVIEWS.api_version,
        "kind": ACCESS_REVIEWS.kind,
        "spec": {"resourceAttributes": asked},
    }
    answer = await client.create(ACCESS_REVIEWS, review)
    return bool((answer.get("status") or {}).get("allowed"))
