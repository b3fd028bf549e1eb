"""From a planned pod to what runs on this machine: commands, environments, folders, mounts.

Runs in the pod's shim. What is wrong with a container becomes its `start_error` and fails the pod; what has another
effect here than on a cluster becomes a note of the pod, and an event of the job.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from vcjob.local.pod import images
from vcjob.local.pod.container import ContainerSpec
from vcjob.local.pod.environment import HostContext, MissingReference, container_env, expand
from vcjob.local.pod.launch import Mount
from vcjob.local.pod.limits import Limits
from vcjob.local.pod.memory_kills import MemoryKills
from vcjob.local.pod.pod import PodSpec
from vcjob.local.pod.rank_delay import start_delay
from vcjob.local.pod.storage import volumes
from vcjob.local.pod.storage.volumes import Volume
from vcjob.local.pod.threads import VARIABLE, cores, threads_of
from vcjob.plugins.flight_recorder import without_agent
from vcjob.plugins.wait import CONTAINER_NAME as WAIT_CONTAINER
from vcjob.report.podstate import PodState, Role
from vcjob.wellknown.environment import HANG_DETECTION, RANK_STATE

_SVC_FOLDER = "/etc/volcano"


class Preparer:
    """Resolves planned pods for this machine: environment, volumes, commands, limits. Runs in the pod's shim.

    The supervisor makes one for the run, and each forked shim calls it. A reference or a volume that cannot be
    resolved becomes the reason why a container cannot start.
    """

    def __init__(
        self,
        host: HostContext,
        *,
        cwd: str,
        image_map: Mapping[str, list[str]],
        claims: Callable[[str], str],
        limits: Limits,
        hide_gpus: bool,
    ) -> None:
        self._host = host
        self._cwd = cwd
        self._images = image_map
        self._claims = claims
        self._limits = limits
        self._hide_gpus = hide_gpus

    def prepare(self, pod: dict[str, Any], state: PodState, folder: str) -> PodSpec:
        spec = pod["spec"]
        notes = Notes(state.notes)
        notes.about(spec)
        error, made = "", dict[str, Volume]()
        try:
            made = volumes.make_volumes(pod, self._host, folder, self._claims, notes.add)
        except MissingReference as missing:
            error = str(missing)
        except (OSError, ValueError) as failed:
            error = _volume_error(failed)
        here = _Here(pod, state, made, error, notes, folder)
        found = [self._container(container, role, here) for role, container in in_order(spec)]
        return PodSpec(
            containers=found,
            restart_policy=spec.get("restartPolicy") or "Always",
            grace_seconds=float(_or(spec.get("terminationGracePeriodSeconds"), 30)),
            deadline_seconds=spec.get("activeDeadlineSeconds"),
            size_limits=() if error else tuple(volumes.size_limits(pod, made, folder)),
            folder=folder,
        )

    def _container(self, container: dict[str, Any], role: Role, here: _Here) -> ContainerSpec:
        container = without_agent(container)  # ranks have another one here
        argv: list[str] = []
        env: dict[str, str] = {}
        cwd = self._cwd
        mounts: tuple[Mount, ...] = ()
        error, notes = here.error, here.notes
        try:
            env, own = container_env(container, here.pod, self._host, self._gpu_env(container, here))
            if not error:
                wanted = volumes.mounts_of(container, here.volumes, own)
                mounts = self._mountable(wanted, notes)
                if wanted and not mounts:
                    env.update(volumes.as_variables(wanted))
            if role == "main" and "MASTER_ADDR" in own and env.get(HANG_DETECTION) != "off":
                env[RANK_STATE] = here.folder
            command = images.command_of(container, self._images)
            if command is None:
                raise MissingReference(
                    f"nothing to run: no command, and image {container.get('image')!r} is not mapped"
                )
            argv = [self._host.hosts.sub("127.0.0.1", expand(word, own)) for word in command]
            cwd = self._folder(container, mounts, notes)
        except MissingReference as missing:
            error = error or str(missing)
        except (OSError, ValueError) as failed:
            error = error or _volume_error(failed)
        return ContainerSpec(
            name=container["name"],
            role=role,
            argv=argv,
            env=env,
            cwd=cwd,
            ports=self._ports(container),
            probes={
                kind: container[f"{kind}Probe"]
                for kind in ("startup", "readiness", "liveness")
                if container.get(f"{kind}Probe") and "grpc" not in container[f"{kind}Probe"]
            },
            mounts=mounts,
            cgroups=self._cgroups(container, here),
            post_start=(container.get("lifecycle") or {}).get("postStart"),
            pre_stop=(container.get("lifecycle") or {}).get("preStop"),
            threads=self._threads(container, argv, env, here.state) if role == "main" else None,
            start_delay=0.0 if role != "main" or _waits_for_master(here.pod) else start_delay(env, cores()),
            start_error=error,
        )

    def memory_kills(self, pod: str) -> MemoryKills:
        return self._limits.memory_kills(pod)

    def _cgroups(self, container: Mapping[str, Any], here: _Here) -> tuple[str, ...]:
        if container["name"] == WAIT_CONTAINER:
            return ()  # its limits are meant for clusters; here they would only slow it down
        resources = container.get("resources") or {}
        cgroups, missed = self._limits.enter(here.pod["metadata"]["name"], container["name"], resources)
        if missed:
            here.notes.add(
                f"limits of {' and '.join(missed)} are not enforced on this machine: no cgroup can be created"
            )
        return cgroups

    def _gpu_env(self, container: Mapping[str, Any], here: _Here) -> dict[str, str]:
        if here.state.gpus:
            return {"CUDA_VISIBLE_DEVICES": ",".join(here.state.gpus)}
        if not self._hide_gpus or any(
            e["name"] == "CUDA_VISIBLE_DEVICES" for e in container.get("env") or []
        ):
            return {}
        here.notes.add("pods that request no nvidia.com/gpu see no GPU of this machine")
        return {"CUDA_VISIBLE_DEVICES": ""}

    def _threads(
        self, container: Mapping[str, Any], argv: list[str], env: Mapping[str, str], state: PodState
    ) -> int | None:
        machine = cores()
        threads = threads_of(container, argv, env, machine)
        if threads is not None:
            shared = f"{env['WORLD_SIZE']} ranks share {machine} {'core' if machine == 1 else 'cores'}"
            state.cores_note = f"{shared}: {VARIABLE} is {threads} for each, unless you set it"
        return threads

    def _mountable(self, wanted: list[Mount], notes: Notes) -> tuple[Mount, ...]:
        own = [mount for mount in wanted if mount.target != _SVC_FOLDER]
        # A user namespace changes what a program may do, so it is entered only for volumes of the Job itself.
        if wanted and (os.geteuid() == 0 or own) and volumes.can_mount(wanted):
            return tuple(wanted)
        for mount in own:
            name = next(iter(volumes.as_variables([mount])))
            notes.add(f"{mount.target} cannot be mounted on this machine: the folder is in ${name} instead")
            if mount.memory is not None:
                notes.add(
                    f"{mount.target} is on disk, not in memory, and its size is not limited on this machine"
                )
        return ()

    def _folder(self, container: Mapping[str, Any], mounts: Iterable[Mount], notes: Notes) -> str:
        wanted = container.get("workingDir")
        if not wanted:
            return self._cwd
        inside = any(wanted == m.target or wanted.startswith(m.target + "/") for m in mounts)
        if inside or os.path.isdir(wanted):
            return str(wanted)
        notes.add(
            f"workingDir {wanted} does not exist on this machine: {container['name']} runs in {self._cwd}"
        )
        return self._cwd

    def _ports(self, container: Mapping[str, Any]) -> dict[str, int]:
        host = self._host
        found: dict[str, int] = {}
        for entry in container.get("ports") or []:
            number = int(entry["containerPort"])
            here = host.local_port if number == host.port and host.local_port else number
            found[str(number)] = here
            if entry.get("name"):
                found[entry["name"]] = here
        return found


class _Here(NamedTuple):
    """The pod whose containers are being prepared, and what was found out about it."""

    pod: dict[str, Any]
    state: PodState
    volumes: Mapping[str, Volume]
    error: str
    notes: Notes
    folder: str


class Notes:
    """What of a pod's spec has another effect on this machine than on a cluster; each note once."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes

    def add(self, note: str) -> None:
        if note not in self._notes:
            self._notes.append(note)

    def about(self, spec: Mapping[str, Any]) -> None:
        containers = [container for _, container in in_order(spec)]
        contexts = [
            spec.get("securityContext"),
            *(c.get("securityContext") for c in spec.get("containers") or []),
        ]
        if any(_or((context or {}).get("runAsUser"), os.geteuid()) != os.geteuid() for context in contexts):
            self.add("runAsUser is not used on this machine: containers run as you")
        if any(
            "grpc" in (c.get(f"{kind}Probe") or {})
            for c in containers
            for kind in ("startup", "liveness", "readiness")
        ):
            self.add("gRPC probes are not supported on this machine: such a container counts as healthy")
        if spec.get("nodeSelector") or spec.get("affinity"):
            self.add("nodeSelector and affinity have no effect on one machine")


def in_order(spec: Mapping[str, Any]) -> list[tuple[Role, dict[str, Any]]]:
    initial: list[tuple[Role, dict[str, Any]]] = [
        ("sidecar" if container.get("restartPolicy") == "Always" else "init", container)
        for container in spec.get("initContainers") or []
    ]
    return initial + [("main", container) for container in spec.get("containers") or []]


def _volume_error(failed: OSError | ValueError) -> str:
    """Why the machine does not make a volume or a subPath; ValueError: its path has a NUL character."""
    reason = f"{failed.strerror}: {failed.filename}" if isinstance(failed, OSError) else str(failed)
    return f"its volumes cannot be made: {reason}"


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _waits_for_master(pod: Mapping[str, Any]) -> bool:
    return any(step["name"] == WAIT_CONTAINER for step in pod["spec"].get("initContainers") or [])
