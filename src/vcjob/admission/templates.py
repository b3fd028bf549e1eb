"""Pod templates: what the API server would refuse once the pods are made is refused before.

The schema has checked every field by itself; here is what fields mean together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vcjob.admission import containers
from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error

KINDS = ("initContainers", "containers")


def check(job: Job) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        where: Path = ("spec", "tasks", number, "template")
        if not task.pod_spec:
            yield error(
                where,
                f"the task `{task.name}` has no pod template",
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
            (*where, "ephemeralContainers"), "a template cannot have ephemeral containers", "take them away"
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
        yield error((*where, "name"), f"a second volume named `{volume['name']}`", "give it another name")
    sources = [key for key, value in volume.items() if key != "name" and value is not None]
    if not sources:
        yield error(
            where,
            "the volume has no source",
            "say what it is, e.g. `emptyDir: {}` or `persistentVolumeClaim: ...`",
        )
    elif len(sources) > 1:
        yield error(
            (*where, sources[1]), f"the volume has several sources: {', '.join(sources)}", "keep one of them"
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
                    f"a second container named `{name}`: {seen[name]}",
                    "give it another name",
                )
            elif name:
                seen[name] = f"{kind}[{number}] has that name"
            yield from containers.check(container, volumes, place)


def _host_ports(pod: dict[str, Any], where: Path) -> Iterator[Problem]:
    """On the node's own network a port of the container is a port of the node; two cannot share one."""
    taken: dict[tuple[Any, ...], str] = {}
    for number, container in enumerate(pod.get("containers") or []):
        for place, port in enumerate(container.get("ports") or []):
            at = (*where, "containers", number, "ports", place)
            inside = port.get("containerPort")
            host = port.get("hostPort") or (inside if pod.get("hostNetwork") else None)
            if pod.get("hostNetwork") and host != inside:
                yield error(
                    (*at, "hostPort"),
                    f"with hostNetwork, hostPort must be the containerPort ({inside})",
                    "leave hostPort out",
                )
            if not host:
                continue
            key = (host, port.get("protocol") or "TCP", port.get("hostIP") or "")
            if key in taken:
                yield error(
                    (*at, "hostPort"),
                    f"the port {host} of the node is taken by {taken[key]}",
                    "use another port",
                )
            else:
                taken[key] = f"container `{container.get('name')}`"
