"""Checks of pod templates: what the API server would refuse when the pods are created is reported here.

The schema has checked each field on its own; these checks concern several fields together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vcjob.admission.checks import containers
from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.wording import listed, show

KINDS = ("initContainers", "containers")


def check(job: Job) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        where: Path = ("spec", "tasks", number, "template")
        if not task.pod_spec:
            yield error(
                where,
                f"the task `{show(task.name)}` has no pod template",
                "add `template: {spec: {containers: [...]}}`",
            )
            continue
        yield from _pod(task.pod_spec, (*where, "spec"))


def _pod(pod: dict[str, Any], where: Path) -> Iterator[Problem]:
    if pod.get("containers") is None:
        yield error(
            (*where, "containers"), "the pod has no containers", "add at least one, with a name and an image"
        )
    if pod.get("ephemeralContainers"):
        yield error(
            (*where, "ephemeralContainers"), "a template cannot have ephemeral containers", "remove them"
        )
    volumes: dict[str, int] = {}
    for number, volume in enumerate(pod.get("volumes") or []):
        yield from _volume(
            volume, volumes.setdefault(volume.get("name"), number), number, (*where, "volumes", number)
        )
    yield from _containers(pod, volumes, where)
    yield from _host_ports(pod, where)


def _volume(volume: dict[str, Any], first: int, number: int, where: Path) -> Iterator[Problem]:
    if first != number:
        yield error(
            (*where, "name"),
            f"another volume of this pod has the name `{volume['name']}`",
            "rename one of them",
        )
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        yield error(
            where,
            "the volume has no source",
            "add one, such as `emptyDir: {}` or `persistentVolumeClaim: ...`",
        )
    elif len(sources) > 1:
        yield error(
            (*where, sources[1]), f"the volume has several sources: {listed(sources)}", "keep one of them"
        )


def _containers(pod: dict[str, Any], volumes: dict[str, int], where: Path) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for kind in KINDS:
        for number, container in enumerate(pod.get(kind) or []):
            place = (*where, kind, number)
            name = container.get("name")
            if name in seen:
                yield error(
                    (*place, "name"),
                    f"another container has the name `{name}`: {seen[name]}",
                    "rename one of them",
                )
            elif name:
                seen[name] = f"{kind}[{number}]"
            yield from containers.check(container, volumes, place, pod.get("resources"))


def _host_ports(pod: dict[str, Any], where: Path) -> Iterator[Problem]:
    """With hostNetwork a port of a container is a port of the node, which only one container can use."""
    taken: dict[tuple[Any, ...], str] = {}
    for number, container in enumerate(pod.get("containers") or []):
        for place, port in enumerate(container.get("ports") or []):
            at = (*where, "containers", number, "ports", place)
            inside = port.get("containerPort")
            host = port.get("hostPort") or (inside if pod.get("hostNetwork") else None)
            if pod.get("hostNetwork") and host != inside:
                yield error(
                    (*at, "hostPort"),
                    f"with hostNetwork, hostPort must be equal to containerPort ({inside})",
                    "remove hostPort",
                )
            if not host:
                continue
            key = (host, port.get("protocol") or "TCP", port.get("hostIP") or "")
            if key in taken:
                yield error(
                    (*at, "hostPort"),
                    f"port {host} of the node is already used by {taken[key]}",
                    "use another port",
                )
            else:
                taken[key] = f"container `{container.get('name')}`"
