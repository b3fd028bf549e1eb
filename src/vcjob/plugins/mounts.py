"""Conflicts between what a plugin mounts into pods and the volumes of the Job.

The API server would refuse such pods. The checks of `svc` and of `--flight-recorder` call `conflicts`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path, Problem, error


class Mounts(msgspec.Struct, frozen=True):
    """What a plugin (`owner` in messages) mounts, the paths and the names of its volumes.

    The plugin's check uses it to report volumes of the Job that are in the way, before a pod is created.
    """

    owner: str
    what: str
    paths: tuple[str, ...]
    volumes: tuple[str, ...]
    in_init_containers: bool

    def conflicts(self, job: Job, tasks: Iterable[tuple[int, Task]]) -> Iterator[Problem]:
        """The conflicts with the volumes of the Job, and with those of the tasks, given with their numbers."""
        for place, volume in enumerate(job.spec.volumes):
            yield from self._path(volume.mount_path, ("spec", "volumes", place))
        for number, task in tasks:
            yield from self._in_task(task, number)

    def _in_task(self, task: Task, number: int) -> Iterator[Problem]:
        for place, volume in enumerate(task.pod_spec.get("volumes") or []):
            if volume.get("name") in self.volumes:
                yield error(
                    ("spec", "tasks", number, "template", "spec", "volumes", place, "name"),
                    f"{self.owner} uses the volume name `{volume['name']}`",
                    "rename this volume",
                )
        for where, container in task.containers(number):
            if self.in_init_containers or "containers" in where:
                for place, mount in enumerate(container.get("volumeMounts") or []):
                    yield from self._path(str(mount.get("mountPath", "")), (*where, "volumeMounts", place))

    def _path(self, path: str, where: Path) -> Iterator[Problem]:
        path = path.rstrip("/")
        if path in self.paths:
            yield error(
                (*where, "mountPath"),
                f"{self.owner} mounts {self.what} at `{path}`",
                "mount this volume at another path",
            )
