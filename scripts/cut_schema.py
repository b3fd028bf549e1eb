"""Cuts the part of Kubernetes' schema that a Job needs and adds the API server's own rules to it.

Kubernetes' published schema knows the fields and their types. What the API server checks in code (which
words a field takes, the form of a name, the range of a number) is added here, each rule with a message for
users. Run it after a new Kubernetes minor:

    .venv/bin/python scripts/cut_schema.py 1.37
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate

TARGET = Path(__file__).parent.parent / "src/vcjob/spec/schemas/kubernetes.json"
ROOTS = (
    "PodTemplateSpec",
    "PersistentVolumeClaimSpec",
    "ObjectMeta",
    "ConfigMap",
    "Secret",
    "PersistentVolumeClaim",
)
DROPPED_FIELDS = {("PersistentVolumeClaim", "status"), ("PersistentVolumeClaimTemplate", "status")}

RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}

LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
SUBDOMAIN = rf"{LABEL}(\.{LABEL})*"
NAME_PART = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


def text(pattern: str, meaning: str) -> dict[str, Any]:
    """A rule for text. The meaning is what a value is not, and after a colon what to write instead."""
    return {"pattern": f"^(?:{pattern})$", "description": meaning}


DNS_LABEL = text(
    LABEL,
    "a valid name: at most 63 lower-case letters, digits and `-`, beginning and ending with a letter or digit",
)
MAYBE_DNS_LABEL = text(f"({LABEL})?", str(DNS_LABEL["description"]))
LABEL_KEY = text(rf"({SUBDOMAIN}/)?{NAME_PART}", "a label key such as `app` or `example.com/app`")
ANNOTATION_KEY = text(
    rf"([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?{NAME_PART}",
    "an annotation key such as `note` or `example.com/note`",
)
LABEL_VALUE = text(
    f"({NAME_PART})?",
    "a label value: at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter or digit",
)
QUANTITY = text(
    r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?",
    "a quantity such as `500m`, `4`, `2Gi` or `1.5G`",
)
CONTAINER_RESOURCE = text(
    rf"cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTPE]i?|{SUBDOMAIN}/{NAME_PART}",
    "a resource of a container: cpu, memory, ephemeral-storage, hugepages-<size>, or a full name such as `nvidia.com/gpu`",
)
ENV_NAME = text(r"[ -<>-~]+", "a variable name: printable ASCII without `=`")
PORT_NAME = text(
    r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?",
    "a port name: at most 15 lower-case letters, digits and single `-`, with at least one letter",
)
MAYBE_PORT_NAME = text(f"({PORT_NAME['pattern'][1:-1]})?", str(PORT_NAME["description"]))
NO_COLON = text("[^:]+", "a valid path: no `:` in it")
HUGE_PAGES = text(r"|Memory|HugePages|HugePages-.+", "a medium: empty, Memory, or HugePages")

PULL = ["Always", "IfNotPresent", "Never"]
RESTART = ["Always", "OnFailure", "Never"]
PROFILE = ["Localhost", "RuntimeDefault", "Unconfined"]
TAINT_POLICY = ["Honor", "Ignore"]

WORDS = {
    "AppArmorProfile.type": PROFILE,
    "Container.imagePullPolicy": PULL,
    "Container.restartPolicy": RESTART,
    "Container.terminationMessagePolicy": ["File", "FallbackToLogsOnError"],
    "ContainerPort.protocol": ["TCP", "UDP", "SCTP"],
    "ContainerResizePolicy.restartPolicy": ["NotRequired", "RestartContainer"],
    "HTTPGetAction.scheme": ["HTTP", "HTTPS"],
    "HostPathVolumeSource.type": [
        "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
    ],
    "ImageVolumeSource.pullPolicy": PULL,
    "LabelSelectorRequirement.operator": ["In", "NotIn", "Exists", "DoesNotExist"],
    "NodeSelectorRequirement.operator": ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"],
    "PersistentVolumeClaimSpec.volumeMode": ["Filesystem", "Block"],
    "PodOS.name": ["linux", "windows"],
    "PodSecurityContext.fsGroupChangePolicy": ["OnRootMismatch", "Always"],
    "PodSecurityContext.seLinuxChangePolicy": ["MountOption", "Recursive"],
    "PodSecurityContext.supplementalGroupsPolicy": ["Merge", "Strict"],
    "PodSpec.dnsPolicy": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
    "PodSpec.preemptionPolicy": ["Never", "PreemptLowerPriority"],
    "PodSpec.restartPolicy": RESTART,
    "SeccompProfile.type": PROFILE,
    "SecurityContext.procMount": ["Default", "Unmasked"],
    "Toleration.effect": ["NoSchedule", "PreferNoSchedule", "NoExecute"],
    "Toleration.operator": ["Exists", "Equal", "Lt", "Gt"],
    "TopologySpreadConstraint.nodeAffinityPolicy": TAINT_POLICY,
    "TopologySpreadConstraint.nodeTaintsPolicy": TAINT_POLICY,
    "TopologySpreadConstraint.whenUnsatisfiable": ["DoNotSchedule", "ScheduleAnyway"],
    "VolumeMount.mountPropagation": ["None", "HostToContainer", "Bidirectional"],
    "VolumeMount.recursiveReadOnly": ["Disabled", "IfPossible", "Enabled"],
}  # fmt: skip

ACCESS_MODES = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
PORT = {"minimum": 1, "maximum": 65535}
#: The number or the name of a port.
PORT_REFERENCE = {
    "type": ["integer", "string"],
    **PORT,
    **PORT_NAME,
    "description": f"{PORT_NAME['description']}; a number stands without quotes",
}
NOT_NEGATIVE = {"minimum": 0}
USER_ID = {"minimum": 0, "maximum": 2**31 - 1}
FILE_MODE = {"minimum": 0, "maximum": 0o777}
WEIGHT = {"minimum": 1, "maximum": 100}

RULES: dict[str, dict[str, Any]] = {
    "Container.image": text(r"\S(.*\S)?|", "an image name: no spaces before or after it"),
    "Container.name": DNS_LABEL,
    "ContainerPort.containerPort": PORT,
    "ContainerPort.hostPort": {"minimum": 0, "maximum": 65535},
    "ContainerPort.name": MAYBE_PORT_NAME,
    "ConfigMapVolumeSource.defaultMode": FILE_MODE,
    "DownwardAPIVolumeFile.mode": FILE_MODE,
    "DownwardAPIVolumeSource.defaultMode": FILE_MODE,
    "EmptyDirVolumeSource.medium": HUGE_PAGES,
    "EnvVar.name": ENV_NAME,
    "GRPCAction.port": PORT,
    "HTTPGetAction.port": PORT_REFERENCE,
    "KeyToPath.mode": FILE_MODE,
    "ObjectMeta.annotations": {"propertyNames": ANNOTATION_KEY},
    "ObjectMeta.labels": {
        "propertyNames": LABEL_KEY,
        "additionalProperties": {"type": ["string", "null"], **LABEL_VALUE},
    },
    "PersistentVolumeClaimSpec.accessModes": {"items": {"type": ["string", "null"], "enum": ACCESS_MODES}},
    "PodSecurityContext.fsGroup": USER_ID,
    "PodSecurityContext.runAsGroup": USER_ID,
    "PodSecurityContext.runAsUser": USER_ID,
    "PodSpec.activeDeadlineSeconds": {"minimum": 1, "maximum": 2**31 - 1},
    "PodSpec.containers": {"minItems": 1},
    "PodSpec.hostname": MAYBE_DNS_LABEL,
    "PodSpec.nodeSelector": {
        "propertyNames": LABEL_KEY,
        "additionalProperties": {"type": ["string", "null"], **LABEL_VALUE},
    },
    "PodSpec.overhead": {"propertyNames": CONTAINER_RESOURCE},
    "PodSpec.subdomain": MAYBE_DNS_LABEL,
    "PodSpec.terminationGracePeriodSeconds": NOT_NEGATIVE,
    "PreferredSchedulingTerm.weight": WEIGHT,
    "Probe.failureThreshold": NOT_NEGATIVE,
    "Probe.initialDelaySeconds": NOT_NEGATIVE,
    "Probe.periodSeconds": NOT_NEGATIVE,
    "Probe.successThreshold": NOT_NEGATIVE,
    "Probe.timeoutSeconds": NOT_NEGATIVE,
    "ProjectedVolumeSource.defaultMode": FILE_MODE,
    "ResourceRequirements.limits": {"propertyNames": CONTAINER_RESOURCE},
    "ResourceRequirements.requests": {"propertyNames": CONTAINER_RESOURCE},
    "SecretVolumeSource.defaultMode": FILE_MODE,
    "SecurityContext.runAsGroup": USER_ID,
    "SecurityContext.runAsUser": USER_ID,
    "TCPSocketAction.port": PORT_REFERENCE,
    "TopologySpreadConstraint.maxSkew": {"minimum": 1},
    "TopologySpreadConstraint.minDomains": {"minimum": 1},
    "Volume.name": DNS_LABEL,
    "VolumeMount.mountPath": NO_COLON,
    "WeightedPodAffinityTerm.weight": WEIGHT,
}

WHOLE = {
    "Quantity": {"type": ["string", "number", "null"], **QUANTITY},
    "IntOrString": {"type": ["integer", "string", "null"]},
}


def main() -> None:
    minor = sys.argv[1] if len(sys.argv) > 1 else "1.37"
    text = schema_text(minor)
    TARGET.write_text(text)
    print(f"Kubernetes {minor}: {len(json.loads(text))} definitions, {len(text)} bytes")


def schema_text(minor: str) -> str:
    """The cut schema of one Kubernetes minor, a line for each definition."""
    folder = Path(kubernetes_validate.__file__).parent / f"kubernetes-json-schema/v{minor}.0-local-strict"
    definitions = json.loads((folder / "_definitions.json").read_text())["$defs"]
    cut = add_rules(closure(definitions))
    lines = [f"{json.dumps(name)}: {json.dumps(cut[name], sort_keys=True)}" for name in sorted(cut)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def closure(definitions: dict[str, Any]) -> dict[str, Any]:
    """The roots and all that they refer to, by short name, without prose and tooling marks."""
    full = {name.rpartition(".")[2]: name for name in definitions if is_core(name)}
    cut: dict[str, Any] = {}
    waiting = list(ROOTS)
    while waiting:
        short = waiting.pop()
        if short in cut:
            continue
        body = definitions[full[short]]
        for field in [field for owner, field in DROPPED_FIELDS if owner == short]:
            body.get("properties", {}).pop(field, None)
        cut[short] = tidy(body, waiting)
    return cut


def is_core(name: str) -> bool:
    return name.startswith(("io.k8s.api.core.v1.", "io.k8s.apimachinery."))


def tidy(node: Any, waiting: list[str]) -> Any:
    if isinstance(node, list):
        return [tidy(item, waiting) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        short = node["$ref"].rpartition("/")[2].rpartition(".")[2]
        waiting.append(short)
        return {"$ref": f"#/$defs/{short}"}
    result: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            result[key] = {field: tidy(inner, waiting) for field, inner in value.items()}
        elif key == "format":
            if value in RANGES:
                result["minimum"], result["maximum"] = RANGES[value]
        elif key not in ("description", "default") and not key.startswith("x-"):
            result[key] = tidy(value, waiting)
    return result


def add_rules(cut: dict[str, Any]) -> dict[str, Any]:
    for name, body in WHOLE.items():
        cut[name] = body
    for place, words in WORDS.items():
        field(cut, place)["enum"] = [*words, "", None]
    for place, rule in RULES.items():
        field(cut, place).update(rule)
    refuse_null_items(cut, cut)
    return cut


def refuse_null_items(node: Any, cut: dict[str, Any]) -> None:
    """A list item that is null would be read as an empty value; nobody means that."""
    if isinstance(node, list):
        for item in node:
            refuse_null_items(item, cut)
    elif isinstance(node, dict):
        items = node.get("items")
        if isinstance(items, dict) and (kinds := named_types(items, cut)):
            items["type"] = kinds
        for value in node.values():
            refuse_null_items(value, cut)


def named_types(items: dict[str, Any], cut: dict[str, Any]) -> str | list[str] | None:
    body = cut[items["$ref"].rpartition("/")[2]] if "$ref" in items else items
    types = body.get("type")
    kinds = [kind for kind in ([types] if isinstance(types, str) else types or []) if kind != "null"]
    return kinds[0] if len(kinds) == 1 else kinds or None


def field(cut: dict[str, Any], place: str) -> dict[str, Any]:
    owner, _, name = place.partition(".")
    found: dict[str, Any] = cut[owner]["properties"][name]
    return found


if __name__ == "__main__":
    main()
