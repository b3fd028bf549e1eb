"""Pretended nodes for scale: kwok answers for their kubelets, so ten thousand pods run on nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.testbed.api import Api
from tests.testbed.isolation.cell import Cell
from tests.testbed.parts.control_plane import ControlPlane
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

MARK = "kwok.x-k8s.io/node"
# A pod on a fake node ends on its own after this time ("5s"), if it has the annotation; else it runs until it is deleted.
COMPLETE_AFTER = "testbed.invalid/complete-after"
# ... or fails with this exit code, after the same time.
FAIL_WITH = "testbed.invalid/fail-with"
# Both may depend on the pod's attempt: it fails only before this one, and ends on its own only from this one on.
FAILS_BEFORE = "testbed.invalid/fails-before-attempt"
ENDS_FROM = "testbed.invalid/ends-from-attempt"

PORT = 10247
OPTIONS: dict[str, Any] = {
    "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
    "kind": "KwokConfiguration",
    "options": {
        "manageNodesWithAnnotationSelector": f"{MARK}=fake",
        "manageAllNodes": False,
        "cidr": "10.244.0.0/14",
        "nodeIP": "10.243.0.1",
        "serverAddress": f"0.0.0.0:{PORT}",
        "nodeLeaseDurationSeconds": 40,
        "podPlayStageParallelism": 16,
        "nodePlayStageParallelism": 8,
        "nodeLeaseParallelism": 4,
        "podsOnNodeSyncParallelism": 4,
    },
}


def start_kwok(cell: Cell, control_plane: ControlPlane) -> Part:
    kubeconfig = control_plane.identity("system:kwok", ("system:masters",), inner=True)
    configuration = cell.folder / "kwok.yaml"
    configuration.write_text("\n---\n".join(json.dumps(document) for document in (OPTIONS, *STAGES)))
    part = Part(
        cell,
        "kwok",
        [str(program("kwok")), f"--kubeconfig={kubeconfig}", f"--config={configuration}", "--v=WARN"],
    ).start()
    part.wait_until(lambda: part.answers(PORT, "/healthz"), "healthy", 30)
    return part


def add_nodes(
    api: Api, count: int, prefix: str = "fake", taint: bool = False, pods: int = 110, **capacity: str
) -> list[str]:
    """``count`` more nodes; returns their names once all are Ready. ``taint`` keeps pods away that do not ask for them."""
    known = {node["metadata"]["name"] for node in api.list("/api/v1/nodes")}
    free = (f"{prefix}-{index}" for index in range(len(known) + count))
    names = [name for name in free if name not in known][:count]
    resources = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": str(pods), **capacity}

    def make(name: str) -> None:
        api.create("/api/v1/nodes", _node(name, taint, resources))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, names))
    api.wait("/api/v1/nodes?labelSelector=type%3Dfake", lambda seen: set(names) <= _ready(seen), 60, "Ready")
    return names


def remove_nodes(api: Api, names: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: api.delete(f"/api/v1/nodes/{name}"), names))


def _ready(nodes: dict[str, Any]) -> set[str]:
    return {
        node["metadata"]["name"]
        for node in nodes["items"]
        for condition in node.get("status", {}).get("conditions", ())
        if condition["type"] == "Ready" and condition["status"] == "True"
    }


def _node(name: str, taint: bool, resources: dict[str, str]) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "annotations": {MARK: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {
                "type": "fake",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"taints": [{"key": MARK, "value": "fake", "effect": "NoSchedule"}] if taint else []},
        "status": {"capacity": resources, "allocatable": resources},
    }


def _stage(
    name: str, kind: str, when: list[tuple[str, str, list[str]]], then: dict[str, Any], **more: Any
) -> dict[str, Any]:
    expressions = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, values in when
    ]
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": expressions},
            "next": then,
            **more,
        },
    }


def _patch(template: str) -> dict[str, Any]:
    """Without the pod's uid, which a kubelet would give: kwok would repeat without end what is refused for that."""
    return {
        "patches": [{"subresource": "status", "root": "status", "type": "strategic", "template": template}]
    }


_NODE_CONDITIONS = """{{ $now := Now }}
conditions:
{{ range NodeConditions }}
- {lastHeartbeatTime: {{ $now | Quote }}, lastTransitionTime: {{ $now | Quote }}, message: {{ .message | Quote }}, reason: {{ .reason | Quote }}, status: {{ .status | Quote }}, type: {{ .type | Quote }}}
{{ end }}
"""

_NODE_READY = (
    _NODE_CONDITIONS
    + """
addresses: [{address: {{ NodeIP | Quote }}, type: InternalIP}]
daemonEndpoints: {kubeletEndpoint: {Port: 10250}}
nodeInfo: {architecture: amd64, operatingSystem: linux, bootID: "", machineID: "", systemUUID: "", containerRuntimeVersion: kwok, kernelVersion: kwok, kubeProxyVersion: kwok, kubeletVersion: kwok, osImage: kwok}
phase: Running
"""
)

_POD_RUNNING = """{{ $now := Now }}
conditions:
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Ready}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: ContainersReady}
{{ range .spec.readinessGates }}
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: {{ .conditionType | Quote }}}
{{ end }}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, imageID: "", containerID: "kwok://fake", name: {{ .name | Quote }}, ready: true, started: true, restartCount: 0, state: {running: {startedAt: {{ $now | Quote }}}}}
{{ end }}
{{ if .spec.initContainers }}
initContainerStatuses:
{{ range .spec.initContainers }}
- {image: {{ .image | Quote }}, imageID: "", containerID: "kwok://fake", name: {{ .name | Quote }}, ready: true, restartCount: 0, state: {terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now | Quote }}, finishedAt: {{ $now | Quote }}}}}
{{ end }}
{{ end }}
hostIP: {{ NodeIPWith .spec.nodeName | Quote }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) ( or .metadata.uid "" ) ( or .metadata.name "" ) ( or .metadata.namespace "" ) | Quote }}
phase: Running
startTime: {{ $now | Quote }}
"""


def _pod_ended(phase: str, code: str, reason: str) -> str:
    return (
        """{{ $now := Now }}{{ $started := .status.startTime }}{{ $root := . }}
conditions:
- {lastTransitionTime: {{ $now | Quote }}, status: "True", type: Initialized}
- {lastTransitionTime: {{ $now | Quote }}, status: "False", type: Ready, reason: """
        + ("PodCompleted" if phase == "Succeeded" else "PodFailed")
        + """}
- {lastTransitionTime: {{ $now | Quote }}, status: "False", type: ContainersReady}
containerStatuses:
{{ range .spec.containers }}
- {image: {{ .image | Quote }}, imageID: "", containerID: "kwok://fake", name: {{ .name | Quote }}, ready: false, started: false, restartCount: 0, state: {terminated: {exitCode: """
        + code
        + f", reason: {reason}"
        + """, startedAt: {{ $started | Quote }}, finishedAt: {{ $now | Quote }}}}}
{{ end }}
phase: """
        + phase
        + "\n"
    )


Condition = tuple[str, str, list[str]]
_LIVE: Condition = (".metadata.deletionTimestamp", "DoesNotExist", [])
_RUNNING = (".status.phase", "In", ["Running"])
_AFTER = {
    "delay": {
        "durationMilliseconds": 0,
        "durationFrom": {"expressionFrom": f'.metadata.annotations["{COMPLETE_AFTER}"]'},
    }
}
_ENDS: Condition = (f'.metadata.annotations["{COMPLETE_AFTER}"]', "Exists", [])


def _number(kind: str, key: str, default: int) -> str:
    return f'((.metadata.{kind}["{key}"] // "{default}") | tonumber)'


_ATTEMPT = _number("labels", "vcjob.io/attempt", 0)
_IS_TIME: Condition = (f"{_ATTEMPT} >= {_number('annotations', ENDS_FROM, 0)}", "In", ["true"])
_FAILS = f'.metadata.annotations["{FAIL_WITH}"] != null and {_ATTEMPT} < {_number("annotations", FAILS_BEFORE, 2**31)}'

STAGES: list[dict[str, Any]] = [
    _stage(
        "node-ready",
        "Node",
        [('.status.conditions.[] | select( .type == "Ready" ) | .status', "NotIn", ["True"])],
        _patch(_NODE_READY),
    ),
    _stage(
        "node-heartbeat",
        "Node",
        [('.status.conditions.[] | select( .type == "Ready" ) | .status', "In", ["True"])],
        _patch(_NODE_CONDITIONS),
        delay={
            "durationMilliseconds": 600_000,
            "jitterDurationMilliseconds": 610_000,
        },  # the lease is the heartbeat
    ),
    _stage(
        "pod-running",
        "Pod",
        [_LIVE, (".status.phase", "In", ["Pending"]), (".status.podIP", "DoesNotExist", [])],
        _patch(_POD_RUNNING),
    ),
    _stage(
        "pod-completes",
        "Pod",
        [_LIVE, _RUNNING, _ENDS, _IS_TIME, (_FAILS, "In", ["false"])],
        _patch(_pod_ended("Succeeded", "0", "Completed")),
        **_AFTER,
    ),
    _stage(
        "pod-fails",
        "Pod",
        [_LIVE, _RUNNING, _ENDS, _IS_TIME, (_FAILS, "In", ["true"])],
        _patch(_pod_ended("Failed", f'{{{{ index $root.metadata.annotations "{FAIL_WITH}" }}}}', "Error")),
        **_AFTER,
    ),
    _stage(
        "pod-deleted",
        "Pod",
        # Not what kwok's own deletion shows of the pod in passing: it deletes by name alone, and would delete the next one.
        [
            (".metadata.deletionTimestamp", "Exists", []),
            ("(.metadata.deletionGracePeriodSeconds // 0) > 0", "In", ["true"]),
        ],
        {"finalizers": {"empty": True}, "delete": True},
    ),
]
