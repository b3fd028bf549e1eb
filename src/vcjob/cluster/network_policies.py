"""Whether a NetworkPolicy keeps every connection away from a pod. Used by the controller and the client.

Only the certain case is reported: policies select the pod, and none of them allows any incoming connection. The list
is read with the caller's permissions; where that fails, nothing is known.
"""

from __future__ import annotations

import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import NETWORK_POLICIES
from vcjob.kube.errors import KubeError
from vcjob.lifecycle.rules import rules_of
from vcjob.plan.names import JOB_NAME, JOB_NAMESPACE, TASK_SPEC
from vcjob.spec.job import Job


class _Selector(msgspec.Struct, rename="camel"):
    match_labels: dict[str, str] = {}
    match_expressions: list[msgspec.Raw] = []


class _Spec(msgspec.Struct, rename="camel"):
    pod_selector: _Selector = msgspec.field(default_factory=_Selector)
    policy_types: list[str] = []
    ingress: list[msgspec.Raw] | None = None


class _Policy(msgspec.Struct):
    metadata: Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


_POLICIES = NETWORK_POLICIES.read_as(_Policy)


def master_labels(job: Job) -> dict[str, str]:
    """The labels of the pod of rank 0, as far as policies select by them."""
    name = next((task.name for task in rules_of(job).tasks.values() if task.rank_offset == 0), "")
    task = job.task(name)
    own = {} if task is None else dict((task.template.get("metadata") or {}).get("labels") or {})
    return {**own, JOB_NAME: job.name, JOB_NAMESPACE: job.namespace, TASK_SPEC: name}


async def blocking_policies(client: Client, namespace: str, labels: dict[str, str]) -> tuple[str, ...]:
    """The names of the policies that together deny all incoming connections to a pod with these labels."""
    try:
        listed = await client.list(_POLICIES, namespace)
    except KubeError:
        return ()
    selecting = [policy for policy in listed if _selects(policy.spec, labels)]
    if any(policy.spec.ingress for policy in selecting):
        return ()
    return tuple(policy.metadata.name for policy in selecting)


def _selects(spec: _Spec, labels: dict[str, str]) -> bool:
    selector = spec.pod_selector
    if selector.match_expressions or (spec.policy_types and "Ingress" not in spec.policy_types):
        return False
    return selector.match_labels.items() <= labels.items()
