"""The files of volumes that come from ConfigMaps, Secrets and the downward API, with their modes.

Used by `volumes`; knows nothing of mounts. What is missing raises MissingReference with a sentence for the user.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from vcjob.local.pod import environment
from vcjob.local.pod.environment import HostContext, MissingReference

_DEFAULT_MODE = 0o644


class VolumeFile(NamedTuple):
    """The content and the mode of one file of a volume."""

    data: bytes
    mode: int


def write_volume(
    source: Mapping[str, Any], pod: Mapping[str, Any], host: HostContext, folder: str, mode: int | None = None
) -> bool:
    """Write the files of one source into `folder`; False where its kind cannot be made on this machine."""
    files = _files(source, pod, host, mode)
    if files is None:
        return False
    for name, file in files.items():
        path = path_below(folder, name)
        if path is None:
            raise MissingReference(f"the volume path {name!r} is outside of its volume")
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(file.data)
            os.fchmod(descriptor, file.mode & 0o777)
    return True


def path_below(folder: str, name: str) -> str | None:
    """The normal form of a path in `folder`; None where the name leads out of it."""
    folder = os.path.normpath(folder)
    path = os.path.normpath(os.path.join(folder, name))
    return path if os.path.commonpath([folder, path]) == folder else None


def _files(
    source: Mapping[str, Any], pod: Mapping[str, Any], host: HostContext, mode: int | None
) -> dict[str, VolumeFile] | None:
    if "configMap" in source:
        return _keyed(source["configMap"], "ConfigMap", "name", host.config_maps, mode)
    if "secret" in source:
        spec = source["secret"]
        return _keyed(spec, "Secret", "secretName" if "secretName" in spec else "name", host.secrets, mode)
    if "downwardAPI" in source:
        spec = source["downwardAPI"]
        default = _mode(spec, "defaultMode", mode)
        return {
            item["path"]: VolumeFile(_downward(item, pod, host).encode(), _mode(item, "mode", default))
            for item in spec.get("items") or []
        }
    return None


def _keyed(
    spec: Mapping[str, Any], kind: str, key: str, objects: Mapping[str, Mapping[str, Any]], mode: int | None
) -> dict[str, VolumeFile]:
    name = spec.get(key) or ""
    found = objects.get(name)
    default = _mode(spec, "defaultMode", mode)
    if found is None:
        if spec.get("optional"):
            return {}
        raise environment.missing(kind, name)
    if not spec.get("items"):
        return {entry: VolumeFile(_bytes(value), default) for entry, value in found.items()}
    chosen = {}
    for item in spec["items"]:
        if item["key"] in found:
            chosen[item["path"]] = VolumeFile(_bytes(found[item["key"]]), _mode(item, "mode", default))
        elif not spec.get("optional"):
            raise environment.missing(kind, name, item["key"])
    return chosen


def _downward(item: Mapping[str, Any], pod: Mapping[str, Any], host: HostContext) -> str:
    if "fieldRef" in item:
        return environment.field(pod, item["fieldRef"]["fieldPath"], host.node)
    if "resourceFieldRef" in item:
        return environment.resource({}, pod, item["resourceFieldRef"])
    raise MissingReference(
        f"the downward API file {item.get('path')!r} has neither fieldRef nor resourceFieldRef"
    )


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _mode(spec: Mapping[str, Any], key: str, default: int | None) -> int:
    given = spec.get(key)
    return int(given) if given is not None else _DEFAULT_MODE if default is None else default
