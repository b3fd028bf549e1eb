"""The webhook configurations with their Service and Secret: Jobs only, a short timeout, no side effects.

Part of `manifests`. The certificate is not made here: the controller fills the Secret and adds its CA to the
configurations when it runs.
"""

from __future__ import annotations

from vcjob.cluster.install.settings import CONFIGURATION, OURS, SECRET, SERVICE, Settings
from vcjob.cluster.resources import JOBS
from vcjob.kube.api.resources import MUTATING_WEBHOOKS, SECRETS, SERVICES, VALIDATING_WEBHOOKS, Document

TIMEOUT_SECONDS = 5


def webhook_objects(settings: Settings, selector: dict[str, str]) -> list[Document]:
    """The empty Secret, the Service and the two configurations; the controller adds its CA to them."""
    service = SERVICES.manifest(
        SERVICE,
        settings.namespace,
        spec={
            "type": "ClusterIP",
            "selector": selector,
            "ports": [{"name": "webhook", "port": 443, "protocol": "TCP", "targetPort": "webhook"}],
        },
    )
    # Created empty here, so that the controller needs no right to create Secrets.
    secret = SECRETS.manifest(SECRET, settings.namespace, type="Opaque")
    mutating = MUTATING_WEBHOOKS.manifest(
        CONFIGURATION,
        webhooks=[
            # Updates too: kubectl replaces the list with our defaults by the list from its file.
            {**_hook(settings, "mutate"), "reinvocationPolicy": "IfNeeded"},
        ],
    )
    validating = VALIDATING_WEBHOOKS.manifest(CONFIGURATION, webhooks=[_hook(settings, "validate")])
    found = [secret, service, mutating, validating]
    for document in found:
        document["metadata"]["labels"] = dict(OURS)
    return found


def _hook(settings: Settings, purpose: str) -> Document:
    hook: Document = {
        "name": f"{purpose}.jobs.vcjob.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": TIMEOUT_SECONDS,
        "failurePolicy": settings.failure_policy,
        "matchPolicy": "Equivalent",
        "clientConfig": {
            "service": {
                "namespace": settings.namespace,
                "name": SERVICE,
                "path": f"/{purpose}",
                "port": 443,
            }
        },
        "rules": [
            {
                "apiGroups": [JOBS.group],
                "apiVersions": [JOBS.version],
                "resources": [JOBS.plural],
                "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced",
            }
        ],
    }
    if settings.namespaces:
        hook["namespaceSelector"] = {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "In",
                    "values": list(settings.namespaces),
                }
            ]
        }
    return hook
