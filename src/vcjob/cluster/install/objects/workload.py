"""The Deployment of the controller and what it needs to run: namespace, priority, network policy, metrics Service.

The pods fulfil Pod Security's level `restricted`.
"""

from __future__ import annotations

from typing import Any

from vcjob.cluster.install.settings import (
    HEALTH_PORT,
    METRICS,
    METRICS_PORT,
    NAME,
    OURS,
    WEBHOOK_PORT,
    Settings,
)
from vcjob.kube.api.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    PRIORITY_CLASSES,
    SERVICES,
    Document,
)

POD_LABELS = {"app.kubernetes.io/name": NAME}
USER = 65532
#: Above every Job, below the cluster's own components.
PRIORITY = 900_000_000
_STOP_SECONDS = 30


def namespace(settings: Settings) -> Document:
    levels = ("enforce", "audit", "warn")
    found = NAMESPACES.manifest(settings.namespace)
    found["metadata"]["labels"] = {
        **OURS,
        **{f"pod-security.kubernetes.io/{level}": "restricted" for level in levels},
    }
    return found


def workload(settings: Settings) -> list[Document]:
    found = [
        PRIORITY_CLASSES.manifest(
            NAME,
            value=PRIORITY,
            globalDefault=False,
            description="The controller that serves the Jobs of this cluster.",
        ),
        NETWORK_POLICIES.manifest(NAME, settings.namespace, spec=_network_policy(settings)),
        POD_DISRUPTION_BUDGETS.manifest(
            NAME, settings.namespace, spec={"minAvailable": 1, "selector": {"matchLabels": POD_LABELS}}
        ),
        SERVICES.manifest(METRICS, settings.namespace, spec=_metrics_service()),
        DEPLOYMENTS.manifest(NAME, settings.namespace, spec=_deployment(settings)),
    ]
    for document in found:
        document["metadata"]["labels"] = dict(OURS)
        if document["kind"] == SERVICES.kind:
            document["metadata"]["labels"]["app.kubernetes.io/name"] = METRICS
    return found


def _metrics_service() -> Document:
    return {
        "type": "ClusterIP",
        "selector": POD_LABELS,
        "ports": [{"name": "metrics", "port": METRICS_PORT, "protocol": "TCP", "targetPort": "metrics"}],
    }


def arguments(settings: Settings) -> list[str]:
    """The command line of a replica (see `vcjob controller --help`)."""
    words = ["controller", f"--lease-namespace={settings.namespace}", f"--gang={settings.gang}"]
    words.append(f"--volcano-namespace={settings.volcano_namespace}")
    words.append(f"--log-level={settings.log_level}")
    words += [f"--namespace={namespace}" for namespace in settings.namespaces]
    if not settings.webhook:
        words.append("--no-webhook")
    if not settings.failure_logs:
        words.append("--no-failure-logs")
    if settings.beside_volcano:
        words.append("--beside-volcano")
    return words


def settings_of(deployment: Document) -> Settings:
    """What an installed controller was started with: the inverse of `arguments`, for what others need to know."""
    namespace = deployment["metadata"]["namespace"]
    containers = ((deployment["spec"].get("template") or {}).get("spec") or {}).get("containers") or [{}]
    words: list[str] = containers[0].get("args") or []
    options = [word.partition("=") for word in words]
    values = {name: value for name, _, value in options}
    return Settings(
        namespace=namespace,
        namespaces=tuple(value for name, _, value in options if name == "--namespace"),
        volcano_namespace=values.get("--volcano-namespace") or Settings().volcano_namespace,
        beside_volcano="--beside-volcano" in values,
        failure_logs="--no-failure-logs" not in values,
        webhook="--no-webhook" not in values,
    )


def _network_policy(settings: Settings) -> Document:
    """Ingress to the ports of the API server, the kubelet and Prometheus only; egress is not restricted."""
    ports = [HEALTH_PORT, METRICS_PORT, *([WEBHOOK_PORT] if settings.webhook else [])]
    return {
        "podSelector": {"matchLabels": POD_LABELS},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"protocol": "TCP", "port": port} for port in ports]}],
    }


def _deployment(settings: Settings) -> Document:
    pod: dict[str, Any] = {
        "serviceAccountName": NAME,
        "priorityClassName": NAME,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": POD_LABELS},
            }
        ],
        "containers": [_container(settings)],
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
    if settings.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in settings.image_pull_secrets]
    return {
        "replicas": settings.replicas,
        "selector": {"matchLabels": POD_LABELS},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "template": {"metadata": {"labels": {**OURS, **POD_LABELS}}, "spec": pod},
    }


def _container(settings: Settings) -> Document:
    ports = {"health": HEALTH_PORT, "metrics": METRICS_PORT}
    if settings.webhook:
        ports["webhook"] = WEBHOOK_PORT
    return {
        "name": "controller",
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "args": arguments(settings),
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - the only writable folder
        "ports": [{"name": name, "containerPort": port, "protocol": "TCP"} for name, port in ports.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe("/healthz", period=1, failures=60),
        "livenessProbe": _probe("/healthz", period=10, failures=6),
        "readinessProbe": _probe("/readyz", period=2, failures=2),
        "resources": {
            "requests": {"cpu": settings.cpu, "memory": settings.memory},
            "limits": {"memory": settings.memory_limit},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a memory file system
    }


def _probe(path: str, *, period: int, failures: int) -> Document:
    return {
        "httpGet": {"path": path, "port": "health"},
        "periodSeconds": period,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
    }
