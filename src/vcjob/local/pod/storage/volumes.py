"""Volumes of a pod as folders of this machine, and where a container sees them.

Every volume becomes a folder (or is one already). Where the machine allows it, the container gets it mounted
at its mountPath, in a mount namespace of its own. Where not, a variable `VCJOB_MOUNT_<PATH>` says where the
folder is, and an event of the job says so once. An emptyDir in memory is a tmpfs that the container's process
mounts; what cannot be one is a folder, and `note` says so.
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
from vcjob.local.pod.storage.mounts import enter_mounts
from vcjob.local.pod.storage.volume_files import path_below, write_volume
from vcjob.spec import quantity

_NOT_A_NAME = re.compile(r"[^A-Z0-9]+")
#: As a kubelet makes them. Only the pod's owner can reach them: the folder of the run is private.
_OPEN_FOLDER = 0o777
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the mountPath in a Job; nothing is written here


#: Gives the folder of a PersistentVolumeClaim by its name.
Claims = Callable[[str], str]


class Volume(NamedTuple):
    """A volume of a pod on this machine: the folder or file that containers see.

    `make_volumes` creates what is needed on the disk; `memory` is the size of a volume that is in memory.
    """

    source: str
    read_only: bool = False
    #: The size in bytes of a tmpfs that takes the place of `source`; 0 for the kernel's default size.
    memory: int | None = None


class SizeLimit(NamedTuple):
    """An emptyDir on disk whose pod is evicted when it takes more than `limit` bytes.

    The pod measures the folder from time to time, as a kubelet does.
    """

    volume: str
    folder: str
    limit: int
    text: str


def make_volumes(
    pod: Mapping[str, Any],
    host: HostContext,
    folder: str,
    claims: Claims,
    note: Callable[[str], None] = lambda _note: None,
) -> dict[str, Volume]:
    """Every volume of the pod, by name. `folder` is the pod's own."""
    return {
        volume["name"]: _make(volume, pod, host, _folder_of(volume, folder), claims=claims, note=note)
        for volume in pod["spec"].get("volumes") or []
    }


def size_limits(pod: Mapping[str, Any], volumes: Mapping[str, Volume], folder: str) -> list[SizeLimit]:
    """The limits of the emptyDirs that are folders on disk; a tmpfs keeps its limit itself."""
    return [
        SizeLimit(volume["name"], _folder_of(volume, folder), quantity.parse(limit).value, str(limit))
        for volume in pod["spec"].get("volumes") or []
        if (limit := (volume.get("emptyDir") or {}).get("sizeLimit"))
        and volumes[volume["name"]].memory is None
    ]


def _folder_of(volume: Mapping[str, Any], folder: str) -> str:
    return os.path.join(folder, "volumes", volume["name"])


def _make(
    volume: Mapping[str, Any],
    pod: Mapping[str, Any],
    host: HostContext,
    own: str,
    *,
    claims: Claims,
    note: Callable[[str], None],
) -> Volume:
    if "hostPath" in volume:
        return _host_path(volume["hostPath"])
    if "persistentVolumeClaim" in volume:
        claim = volume["persistentVolumeClaim"]
        folder = claims(claim["claimName"])
        os.makedirs(folder, 0o700, exist_ok=True)
        return Volume(folder, bool(claim.get("readOnly")))
    os.makedirs(own, 0o700, exist_ok=True)
    os.chmod(own, _OPEN_FOLDER)
    if "emptyDir" in volume:
        return Volume(own, memory=_memory(volume, pod, note))
    if "projected" in volume:
        for source in volume["projected"].get("sources") or []:
            if not write_volume(source, pod, host, own, volume["projected"].get("defaultMode")):
                raise _unknown(volume, source)
        return Volume(own, True)
    if not write_volume(volume, pod, host, own):
        raise _unknown(volume, {key: value for key, value in volume.items() if key != "name"})
    return Volume(own, True)


def _unknown(volume: Mapping[str, Any], source: Mapping[str, Any]) -> MissingReference:
    kinds = ", ".join(source) or "no source"
    return MissingReference(f"the volume {volume['name']!r} ({kinds}) cannot be made on this machine")


def _memory(volume: Mapping[str, Any], pod: Mapping[str, Any], note: Callable[[str], None]) -> int | None:
    """The size of the tmpfs for an emptyDir in memory; None where it is a folder on disk.

    The tmpfs exists as long as the process of one container. So it can neither be shared by containers nor be kept
    for a restart; only /dev/shm needs neither.
    """
    spec = volume["emptyDir"] or {}
    if spec.get("medium") != "Memory":
        return None
    containers = [*(pod["spec"].get("initContainers") or []), *(pod["spec"].get("containers") or [])]
    users = [
        (container, mount)
        for container in containers
        for mount in container.get("volumeMounts") or []
        if mount["name"] == volume["name"]
    ]
    ends_with_its_process = pod["spec"].get("restartPolicy") == "Never" and all(
        container.get("restartPolicy") != "Always" for container, _ in users
    )
    for _, mount in users:
        whole = not mount.get("subPath") and not mount.get("subPathExpr")
        if len(users) == 1 and whole and (ends_with_its_process or mount["mountPath"] == _SHARED_MEMORY):
            return quantity.parse(spec.get("sizeLimit") or 0).value
    if users:
        note(f"the emptyDir volume {volume['name']!r} is kept on disk, not in memory, on this machine")
    return None


def _host_path(spec: Mapping[str, Any]) -> Volume:
    path, kind = spec["path"], spec.get("type") or ""
    if kind == "DirectoryOrCreate":
        os.makedirs(path, exist_ok=True)
    elif kind == "FileOrCreate":
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
    if not os.path.exists(path):
        raise MissingReference(f"the hostPath {path} does not exist on this machine")
    return Volume(path)


def used_bytes(folder: str) -> int:
    """What the files below a folder take of the disk; those that vanish meanwhile are left out."""
    used = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                used += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                pass
    return used


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
            inside = path_below(source, below)
            if inside is None:
                raise MissingReference(f"the subPath {below!r} is outside of its volume")
            source = inside
            if not os.path.exists(source):
                os.makedirs(source)
                os.chmod(source, os.stat(volume.source).st_mode & 0o777)
        target = os.path.normpath(mount["mountPath"])
        if target != source:
            read_only = bool(mount.get("readOnly")) or volume.read_only
            found.append(Mount(source, target, read_only, volume.memory))
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
