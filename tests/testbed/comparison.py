"""Pods side by side: without what differs from run to run or is filled in by the API server, as flat paths."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

Pod = dict[str, Any]

# What the API server, the scheduler and admission add to every pod alike.
_POD_DEFAULTS: dict[str, Any] = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "priority": 0,
    "securityContext": {},
    "serviceAccount": "default",
    "serviceAccountName": "default",
    "terminationGracePeriodSeconds": 30,
}
_CONTAINER_DEFAULTS: dict[str, Any] = {
    "imagePullPolicy": "IfNotPresent",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_METADATA_OF_ONE_RUN = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "generateName",
    "selfLink",
)


def comparable(pod: Pod) -> Pod:
    """The pod as its maker meant it; uids read all zeros, the namespace ``default``."""
    pod = copy.deepcopy(pod)
    namespace = pod["metadata"].get("namespace", "default")
    pod.pop("status", None)
    pod.update(apiVersion="v1", kind="Pod")
    for name in _METADATA_OF_ONE_RUN:
        pod["metadata"].pop(name, None)
    spec = pod["spec"]
    spec.pop("nodeName", None)
    for name, value in _POD_DEFAULTS.items():
        if spec.get(name) == value:
            del spec[name]
    spec["tolerations"] = [
        t for t in spec.get("tolerations", []) if not t["key"].startswith("node.kubernetes.io/")
    ]
    spec["volumes"] = [
        volume for volume in spec.get("volumes", []) if not volume["name"].startswith("kube-api-access-")
    ]
    for volume in spec["volumes"]:
        if volume.get("configMap", {}).get("defaultMode") == 0o644:
            del volume["configMap"]["defaultMode"]
    for container in spec.get("initContainers", []) + spec["containers"]:
        for name, value in _CONTAINER_DEFAULTS.items():
            if container.get(name) == value:
                del container[name]
        container["volumeMounts"] = [
            mount
            for mount in container.get("volumeMounts", [])
            if not mount["name"].startswith("kube-api-access-")
        ]
        for port in container.get("ports", []):
            if port.get("protocol") == "TCP":
                del port["protocol"]
    for name in ("tolerations", "volumes"):
        if not spec[name]:
            del spec[name]
    text = re.sub(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "00000000-0000-0000-0000-000000000000", json.dumps(pod)
    )
    if namespace != "default":
        text = text.replace(f'"{namespace}"', '"default"')
    plain: Pod = json.loads(text)
    return plain


def flat(value: object, path: str = "") -> dict[str, object]:
    """Every leaf by its path; items of a list that have a name are compared by it, because their order means nothing."""
    if isinstance(value, dict) and value:
        pairs = [(f"{path}.{key}" if path else key, item) for key, item in value.items()]
    elif isinstance(value, list) and value:
        named = all(isinstance(item, dict) and "name" in item for item in value)
        pairs = [(f"{path}[{item['name'] if named else index}]", item) for index, item in enumerate(value)]
    else:
        return {path: value}
    leaves: dict[str, object] = {}
    for inner, item in pairs:
        leaves.update(flat(item, inner))
    return leaves


def differences(one: Pod, other: Pod) -> dict[str, tuple[object, object]]:
    """The paths whose values differ (None where there is none), with both values."""
    left, right = flat(one), flat(other)
    paths = sorted(left.keys() | right.keys())
    return {path: (left.get(path), right.get(path)) for path in paths if left.get(path) != right.get(path)}
