"""Volumes of a pod as folders of this machine, and where a container sees them.

Every volume becomes a folder (or is one already). Where the machine lets us, the container gets it mounted
at its mountPath, in a mount namespace of its own. Where not, a variable `VCJOB_MOUNT_<PATH>` says where the
folder is, and the job's events say so once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from vcjob.local.machine import linux
from vcjob.local.pod import environment
from vcjob.local.pod.environment import HostContext, MissingReference
from vcjob.local.pod.launch import Mount
from vcjob.local.pod.mounts import enter_mounts

_NOT_A_NAME = re.compile(r"[^A-Z0-9]+")


Claims = Callable[[str], str]


class Volume(NamedTuple):
    source: str
    read_only: bool = False


def make_volumes(
    pod: Mapping[str, Any], place: HostContext, folder: str, claims: Claims
) -> dict[str, Volume]:
    """Every volume of the pod, by name. `folder` is the pod's own; `claims` gives the folder of a claim."""
    return {
        volume["name"]: _make(volume, pod, place, os.path.join(folder, "volumes", volume["name"]), claims)
        for volume in pod["spec"].get("volumes") or []
    }


def _make(
    volume: Mapping[str, Any], pod: Mapping[str, Any], place: HostContext, own: str, claims: Claims
) -> Volume:
    if "hostPath" in volume:
        return _host_path(volume["hostPath"])
    if "persistentVolumeClaim" in volume:
        claim = volume["persistentVolumeClaim"]
        folder = claims(claim["claimName"])
        os.makedirs(folder, 0o700, exist_ok=True)
        return Volume(folder, bool(claim.get("readOnly")))
    os.makedirs(own, 0o700, exist_ok=True)
    if "emptyDir" in volume:
        return Volume(own)
    if "projected" in volume:
        for source in volume["projected"].get("sources") or []:
            _write_files(source, pod, place, own)
        return Volume(own, True)
    if not _write_files(volume, pod, place, own):
        kinds = ", ".join(key for key in volume if key != "name")
        raise MissingReference(
            f"the volume {volume['name']!r} ({kinds or 'no source'}) cannot be made on this machine"
        )
    return Volume(own, True)


def _host_path(spec: Mapping[str, Any]) -> Volume:
    path, kind = spec["path"], spec.get("type") or ""
    if kind == "DirectoryOrCreate":
        os.makedirs(path, exist_ok=True)
    elif kind == "FileOrCreate":
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    if not os.path.exists(path):
        raise MissingReference(f"the hostPath {path} is not on this machine")
    return Volume(path)


def _write_files(source: Mapping[str, Any], pod: Mapping[str, Any], place: HostContext, folder: str) -> bool:
    if "configMap" in source:
        content = _content(source["configMap"], "ConfigMap", "name", place.config_maps)
        files = {name: text.encode() for name, text in content.items()}
    elif "secret" in source:
        spec = source["secret"]
        files = _content(spec, "Secret", "secretName" if "secretName" in spec else "name", place.secrets)
    elif "downwardAPI" in source:
        files = {
            item["path"]: environment.field(pod, item["fieldRef"]["fieldPath"], place.node).encode()
            for item in source["downwardAPI"].get("items") or []
            if "fieldRef" in item
        }
    else:
        return False
    for name, data in files.items():
        path = os.path.normpath(os.path.join(folder, name))
        if not path.startswith(folder + os.sep):
            raise MissingReference(f"the volume path {name!r} leads out of its volume")
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return True


def _content(
    spec: Mapping[str, Any], kind: str, key: str, shelf: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    name = spec.get(key) or ""
    found = shelf.get(name)
    if found is None:
        if spec.get("optional"):
            return {}
        raise environment.missing(kind, name)
    if not spec.get("items"):
        return dict(found)
    chosen = {}
    for item in spec["items"]:
        if item["key"] in found:
            chosen[item["path"]] = found[item["key"]]
        elif not spec.get("optional"):
            raise environment.missing(kind, name, item["key"])
    return chosen


def mounts_of(
    container: Mapping[str, Any], volumes: Mapping[str, Volume], own: Mapping[str, str]
) -> list[Mount]:
    """What a container wants to see where. `own` are its variables, for subPathExpr."""
    found = []
    for mount in container.get("volumeMounts") or []:
        volume = volumes.get(mount["name"])
        if volume is None:
            raise MissingReference(f"volumeMounts: the pod has no volume {mount['name']!r}")
        source = volume.source
        below = environment.expand(mount.get("subPathExpr") or "", own) or mount.get("subPath") or ""
        if below:
            source = os.path.normpath(os.path.join(source, below))
            if not source.startswith(volume.source + os.sep):
                raise MissingReference(f"the subPath {below!r} leads out of its volume")
            if not os.path.exists(source):
                os.makedirs(source, 0o700)
        target = os.path.normpath(mount["mountPath"])
        if target != source:
            found.append(Mount(source, target, bool(mount.get("readOnly")) or volume.read_only))
    return found


def as_variables(mounts: Iterable[Mount]) -> dict[str, str]:
    """Where the folders are, for a container that does not see them at their mountPath."""
    return {f"VCJOB_MOUNT_{_NOT_A_NAME.sub('_', m.target.upper()).strip('_')}": m.source for m in mounts}


def can_mount(mounts: Iterable[Mount]) -> bool:
    """May we make these mounts, seen by our own processes alone? Tried in a process that ends at once."""
    if not linux.LINUX:
        return False
    pid = os.fork()
    if pid == 0:
        try:
            enter_mounts(mounts)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0
