"""The shm plugin: a /dev/shm that is large enough.

A container's /dev/shm has 64 MiB, and a PyTorch DataLoader with workers needs more: it dies with a bus
error. This plugin mounts memory there instead, in every container of every task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.goflags import Flag, parse_flags
from vcjob.spec.job import Job
from vcjob.spec.problem import Problem, error

FLAGS = (Flag("size", "string", ""),)
MOUNT_PATH = "/dev/shm"


class ShmOptions(NamedTuple):
    size: str


class ShmPlugin(Plugin[ShmOptions]):
    name: ClassVar[str] = "shm"

    def parse(self, arguments: Sequence[str]) -> tuple[ShmOptions, list[Problem]]:
        read, problems = parse_flags(FLAGS, arguments)
        size = read.text("size")
        if size and not re.fullmatch(r"[1-9][0-9]*(Ki|Mi|Gi)", size):
            problems.append(error(read.where("size"), f"`{size}` is not a size", "write --size=8Gi"))
        return ShmOptions(size), problems

    def check(self, job: Job, options: ShmOptions) -> Iterable[Problem]:
        for number, task in enumerate(job.tasks):
            for place, volume in enumerate(task.pod_spec.get("volumes") or []):
                if volume.get("name") == "shm":
                    where = ("spec", "tasks", number, "template", "spec", "volumes", place, "name")
                    yield error(where, "the shm plugin uses the volume name `shm`", "rename this volume")

    def shape(self, draft: PodDraft, options: ShmOptions) -> None:
        memory: dict[str, Any] = {"medium": "Memory"}
        if options.size:
            memory["sizeLimit"] = options.size
        draft.volumes.append({"name": "shm", "emptyDir": memory})
        for container in draft.containers:
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [*mounts, {"name": "shm", "mountPath": MOUNT_PATH}]
