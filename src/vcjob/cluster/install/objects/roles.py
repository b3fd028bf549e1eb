"""The rights of the controller, and those that the cluster's roles `view`, `edit` and `admin` get for Jobs.

The controller has no wildcard, no Secret but its own, and nothing that it does not use. Its rights for Jobs are
granted in the whole cluster or in the served namespaces only. `tests/cluster/install/rights.txt` shows the sum as
`kubectl auth can-i --list` does.
"""

from __future__ import annotations

from vcjob.cluster.controller.schedulers import CONTROLLER_LEASE, SCHEDULER_LEASE
from vcjob.cluster.install.objects.crds import NAMES
from vcjob.cluster.install.settings import CONFIGURATION, LEASE, NAME, OURS, SECRET, Settings
from vcjob.kube.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Document,
    Resource,
)

Rule = dict[str, list[str]]

_READ = ["get", "list", "watch"]
_RBAC = "rbac.authorization.k8s.io"


def service_account(settings: Settings) -> Document:
    return _labelled(SERVICE_ACCOUNTS.manifest(NAME, settings.namespace))


def roles(settings: Settings) -> list[Document]:
    """Roles with their bindings to the controller's account, and the roles for users."""
    found = _granted(settings, NAME, settings.namespace, _own_rules(settings))
    found += _granted(settings, NAME, None, _cluster_rules(settings))
    if settings.namespaces:
        for namespace in settings.namespaces:
            found += _granted(settings, f"{NAME}-jobs", namespace, job_rules(settings))
    else:
        found += _granted(settings, f"{NAME}-jobs", None, job_rules(settings))
    return [*found, *user_roles()]


def user_roles() -> list[Document]:
    """Added by Kubernetes to its own roles `view`, `edit` and `admin`, so that a namespace's users may use Jobs."""
    view = [
        _rule("batch.volcano.sh", ["jobs", "jobs/status"], _READ),
        _rule("bus.volcano.sh", ["commands"], _READ),
        _rule("scheduling.volcano.sh", ["podgroups"], _READ),
    ]
    edit = [
        _rule("batch.volcano.sh", ["jobs"], ["create", "update", "patch", "delete", "deletecollection"]),
        _rule("bus.volcano.sh", ["commands"], ["create", "delete", "deletecollection"]),
    ]
    found = []
    for name, rules, targets in (
        ("vcjob-view", view, ("view", "edit", "admin")),
        ("vcjob-edit", edit, ("edit", "admin")),
    ):
        role = _labelled(CLUSTER_ROLES.manifest(name, rules=rules))
        role["metadata"]["labels"] |= {f"{_RBAC}/aggregate-to-{target}": "true" for target in targets}
        found.append(role)
    return found


def job_rules(settings: Settings) -> list[Rule]:
    """What the controller needs in every served namespace."""
    logs = [_rule("", ["pods/log"], ["get"])]  # the last lines of pods that failed
    return [
        *(logs if settings.failure_logs else ()),
        _rule("batch.volcano.sh", ["jobs"], [*_READ, "delete"]),  # deleted after ttlSecondsAfterFinished
        _rule("batch.volcano.sh", ["jobs/status"], ["patch"]),
        # Where OwnerReferencesPermissionEnforcement is on, an owner that blocks its deletion needs this.
        _rule("batch.volcano.sh", ["jobs/finalizers"], ["update"]),
        _rule("bus.volcano.sh", ["commands"], ["list", "watch", "delete"]),
        _rule("", ["pods"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["configmaps", "services"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["persistentvolumeclaims"], [*_READ, "create"]),
        _rule("networking.k8s.io", ["networkpolicies"], [*_READ, "create", "patch", "delete"]),
        _rule("scheduling.volcano.sh", ["podgroups"], [*_READ, "create", "patch", "delete"]),
        _rule("scheduling.x-k8s.io", ["podgroups"], [*_READ, "create", "patch", "delete"]),
        _rule("", ["events"], ["create", "list"]),  # why a pod that has its node does not start
    ]


def _own_rules(settings: Settings) -> list[Rule]:
    """In the controller's own namespace: its Lease, and the one Secret with the webhook's certificate."""
    rules = [
        _rule("coordination.k8s.io", ["leases"], ["create"]),  # a right to create cannot name the object
        _rule("coordination.k8s.io", ["leases"], ["get", "update"], LEASE),
    ]
    if settings.webhook:
        rules.append(_rule("", ["secrets"], [*_READ, "update"], SECRET))
    return rules


def _cluster_rules(settings: Settings) -> list[Rule]:
    """Cluster-scoped objects, and what shows whether Volcano's own components are running."""
    rules = [
        _rule("scheduling.k8s.io", ["priorityclasses"], ["list", "watch"]),
        _rule("scheduling.volcano.sh", ["queues"], ["list", "watch"]),
        _rule("coordination.k8s.io", ["leases"], ["list", "watch"], SCHEDULER_LEASE, CONTROLLER_LEASE),
        _rule("apiextensions.k8s.io", ["customresourcedefinitions"], ["get"], *NAMES),
        # Whether what looks like Volcano has rights that only a cluster administrator can grant.
        _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
    ]
    if settings.namespaces:
        rules.append(_rule("", ["pods"], ["list", "watch"]))
    if settings.webhook:
        kinds = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
        rules.append(_rule("admissionregistration.k8s.io", kinds, [*_READ, "patch"], CONFIGURATION))
    return rules


def _rule(group: str, resources: list[str], verbs: list[str], *names: str) -> Rule:
    rule = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return {**rule, "resourceNames": list(names)} if names else rule


def _granted(settings: Settings, name: str, namespace: str | None, rules: list[Rule]) -> list[Document]:
    role, binding = (ROLES, ROLE_BINDINGS) if namespace else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": settings.namespace}
    return [
        _labelled(role.manifest(name, namespace, rules=rules)),
        _labelled(
            binding.manifest(name, namespace, roleRef=_reference(role, name), subjects=[account]),
        ),
    ]


def _reference(role: Resource[Document], name: str) -> Document:
    return {"apiGroup": _RBAC, "kind": role.kind, "name": name}


def _labelled(document: Document) -> Document:
    document["metadata"]["labels"] = dict(OURS)
    return document
