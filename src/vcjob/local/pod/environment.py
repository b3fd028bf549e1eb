"""The environment of a container on this machine.

It is built as Kubernetes does it (envFrom, env in order, `$(VAR)`, valueFrom), on top of the caller's environment.
Addresses of the cluster are replaced by addresses of this machine: the master and every other host is 127.0.0.1, and
the port is the one that the job holds here. What is missing raises MissingReference.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from vcjob.local.machine import process
from vcjob.spec import quantity
from vcjob.spec.scalars import base64_bytes

LOCALHOST = "127.0.0.1"
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_KEYED = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_PORT_NAMES = ("MASTER_PORT", "PET_MASTER_PORT")
#: Variables of a launcher that vcjob itself may run under; a rank must not inherit them.
_OF_ANOTHER_JOB = re.compile(
    r"(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|GROUP_WORLD_SIZE|ROLE_\w+|MASTER_ADDR|MASTER_PORT"
    r"|TORCHELASTIC_\w+|PET_\w+|V[CK]_\w+|VCJOB_(RUN_UID|POD_UID|CONTAINER|MOUNT_\w+|WAIT_\w+))"
)


class MissingReference(Exception):
    """A ConfigMap, Secret, key or volume that the pod needs does not exist or cannot be made here.

    Caught while a pod is prepared: its containers then cannot start, and this message is the reason.
    """


class HostContext(NamedTuple):
    """What the pods of one run share: the caller's environment, ConfigMaps and Secrets, and the local addresses.

    Built by the supervisor (`host_setup`) once per run.
    """

    env: Mapping[str, str]
    #: The values of `data` are text, those of `binaryData` bytes.
    config_maps: Mapping[str, Mapping[str, str | bytes]]
    secrets: Mapping[str, Mapping[str, bytes]]
    #: Matches every address of a pod of this job.
    hosts: re.Pattern[str]
    #: The port in the Job, and the port that the job uses on this machine.
    port: int | None
    local_port: int | None
    node: str
    run_uid: str

    def localize(self, name: str, value: str) -> str:
        """A planned value with the addresses and the port of this machine."""
        if self.local_port is not None and name in _PORT_NAMES and value == str(self.port):
            return str(self.local_port)
        if "." not in value:
            return value
        value = self.hosts.sub(LOCALHOST, value)
        if self.local_port is not None and value == f"{LOCALHOST}:{self.port}":
            return f"{LOCALHOST}:{self.local_port}"
        return value


def inherited(env: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without the variables of another job."""
    return {name: value for name, value in env.items() if not _OF_ANOTHER_JOB.fullmatch(name)}


def container_env(
    container: Mapping[str, Any], pod: Mapping[str, Any], host: HostContext, extra: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The whole environment of a container, and the part of it that the pod defines (for `$(VAR)` in commands).

    `extra` overrides both: GPUs, and folders in place of mounts.
    """
    own: dict[str, str] = {}
    for source in container.get("envFrom") or []:
        own.update(_all_of(source, host))
    for entry in container.get("env") or []:
        value = _value_of(entry, container, pod, host, own)
        if value is not None:
            own[entry["name"]] = host.localize(entry["name"], value)
    env = {**host.env, **own, **extra}
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.setdefault("GLOO_SOCKET_IFNAME", "lo" if sys.platform == "linux" else "lo0")
    env[process.MARK_RUN] = host.run_uid
    env[process.MARK_POD] = pod["metadata"]["uid"]
    env[process.MARK_CONTAINER] = container["name"]
    return env, own


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(VAR)` becomes its value where the pod defines it; `$$` is a dollar sign; the rest stays as it is."""

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return env.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def _value_of(
    entry: Mapping[str, Any],
    container: Mapping[str, Any],
    pod: Mapping[str, Any],
    host: HostContext,
    own: Mapping[str, str],
) -> str | None:
    source = entry.get("valueFrom")
    if not source:
        return expand(str(entry.get("value") or ""), own)
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"], host.node)
    if "resourceFieldRef" in source:
        return resource(container, pod, source["resourceFieldRef"])
    if "configMapKeyRef" in source:
        return _keyed(source["configMapKeyRef"], "ConfigMap", host)
    if "secretKeyRef" in source:
        return _keyed(source["secretKeyRef"], "Secret", host)
    raise MissingReference(
        f"env {entry['name']}: valueFrom {', '.join(source)} is not supported on this machine"
    )


def _keyed(reference: Mapping[str, Any], kind: str, host: HostContext) -> str | None:
    name, key = reference.get("name") or "", reference["key"]
    found = _variables(kind, name, host)
    if found is not None and key in found:
        return found[key]
    if reference.get("optional"):
        return None
    raise missing(kind, name, None if found is None else key)


def _variables(kind: str, name: str, host: HostContext) -> dict[str, str] | None:
    """The keys of a ConfigMap or Secret that can be variables; as on a cluster, `binaryData` can only be files."""
    if name not in (host.secrets if kind == "Secret" else host.config_maps):
        return None
    if kind == "Secret":
        return {key: value.decode(errors="replace") for key, value in host.secrets[name].items()}
    return {key: value for key, value in host.config_maps[name].items() if isinstance(value, str)}


def missing(kind: str, name: str, key: str | None = None) -> MissingReference:
    if key is not None:
        return MissingReference(f"the {kind} {name!r} has no key {key!r}")
    return MissingReference(
        f"the {kind} {name!r} does not exist: add it to the Job's file as another document"
    )


def _all_of(source: Mapping[str, Any], host: HostContext) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    kind = "ConfigMap" if "configMapRef" in source else "Secret"
    reference = source.get("configMapRef") or source.get("secretRef") or {}
    name = reference.get("name") or ""
    found = _variables(kind, name, host)
    if found is None:
        if reference.get("optional"):
            return {}
        raise missing(kind, name)
    return {prefix + key: value for key, value in found.items()}


def field(pod: Mapping[str, Any], path: str, node: str) -> str:
    """The downward API: a field of the pod as text."""
    metadata, spec = pod["metadata"], pod["spec"]
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str((metadata.get(keyed[1]) or {}).get(keyed[2], ""))
    values = {
        "metadata.name": metadata.get("name"),
        "metadata.namespace": metadata.get("namespace"),
        "metadata.uid": metadata.get("uid"),
        "metadata.labels": _lines(metadata.get("labels")),
        "metadata.annotations": _lines(metadata.get("annotations")),
        "spec.nodeName": node,
        "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
        "status.hostIP": LOCALHOST,
        "status.hostIPs": LOCALHOST,
        "status.podIP": LOCALHOST,
        "status.podIPs": LOCALHOST,
    }
    if path not in values:
        raise MissingReference(f"the pod field {path!r} is not supported on this machine")
    return str(values[path] or "")


def _lines(mapping: Mapping[str, str] | None) -> str:
    return "\n".join(f'{key}="{value}"' for key, value in (mapping or {}).items())


def resource(container: Mapping[str, Any], pod: Mapping[str, Any], reference: Mapping[str, Any]) -> str:
    """A limit or request in units of the divisor, rounded up; without one, the capacity of the machine."""
    name = reference.get("containerName")
    if name:
        everyone = [*(pod["spec"].get("initContainers") or []), *(pod["spec"].get("containers") or [])]
        container = next((other for other in everyone if other["name"] == name), container)
    kind, _, what = str(reference["resource"]).partition(".")
    resources = container.get("resources") or {}
    amount = (resources.get(kind) or {}).get(what)
    if amount is None and kind == "requests":
        amount = (resources.get("limits") or {}).get(what)
    if amount is None:
        amount = _of_machine(what)
    divisor = quantity.parse(reference.get("divisor") or "1")
    nano = quantity.parse(amount).nano
    return str(-(-nano // divisor.nano) if divisor.nano else quantity.parse(amount).value)


def _of_machine(what: str) -> str:
    import os

    if what == "cpu":
        return str(os.cpu_count() or 1)
    if what == "memory":
        return str(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return "0"


def config_map_data(config_map: Mapping[str, Any]) -> dict[str, str | bytes]:
    texts = {key: value or "" for key, value in (config_map.get("data") or {}).items()}
    return {
        **texts,
        **{key: base64_bytes(value) for key, value in (config_map.get("binaryData") or {}).items()},
    }


def secret_data(secret: Mapping[str, Any]) -> dict[str, bytes]:
    data = {key: base64_bytes(value) for key, value in (secret.get("data") or {}).items()}
    data.update({key: (value or "").encode() for key, value in (secret.get("stringData") or {}).items()})
    return data
