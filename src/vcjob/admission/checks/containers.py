"""Checks of one container: its image, mounts, variables, ports, probes and resources.

`templates` calls `check` for every container of a pod. What the API server would refuse once the pod is
created is a problem here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from vcjob.spec import quantity
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.spelling import Vocabulary, did_you_mean
from vcjob.spec.wording import listed, show

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOKS = ("postStart", "preStop")
_HOOK_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")
_HUGE_PAGES = "hugepages-"
_DIVISIBLE = ("cpu", "memory", "ephemeral-storage")


def check(
    container: dict[str, Any], volumes: Collection[str], where: Path, pod_resources: dict[str, Any] | None
) -> Iterator[Problem]:
    if not container.get("image"):
        yield error(where, "the container has no image", "add `image: ...`")
    yield from _mounts(container, volumes, where)
    yield from _env(container, where)
    yield from _ports(container, where)
    yield from _probes(container, where)
    if container.get("resources"):
        yield from _resources(container["resources"], (*where, "resources"))
        yield from _huge_pages(container["resources"], pod_resources or {}, (*where, "resources"))


def _mounts(container: dict[str, Any], volumes: Collection[str], where: Path) -> Iterator[Problem]:
    mounts = container.get("volumeMounts")
    if not mounts:
        return
    paths: set[str] = set()
    known = Vocabulary(volumes)
    for number, mount in enumerate(mounts):
        place = (*where, "volumeMounts", number)
        name, path = mount.get("name"), mount.get("mountPath")
        if name is not None and name not in volumes:
            hint = did_you_mean(name, known, "add it to the `volumes` of the pod")
            yield error((*place, "name"), f"there is no volume named `{show(name)}`", hint)
        if path in paths:
            yield error(
                (*place, "mountPath"),
                f"another volume is mounted at `{show(path)}` in this container",
                "choose another path",
            )
        elif path is not None:
            paths.add(path)


def _env(container: dict[str, Any], where: Path) -> Iterator[Problem]:
    for number, variable in enumerate(container.get("env") or []):
        place = (*where, "env", number)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if variable.get("value"):
            yield error(
                (*place, "valueFrom"),
                f"the variable `{show(variable.get('name'))}` has both a value and a valueFrom",
                "remove one of them",
            )
        yield from _exactly_one(source, tuple(source), (*place, "valueFrom"), "valueFrom")
    for number, source in enumerate(container.get("envFrom") or []):
        kinds = ("configMapRef", "secretRef")
        yield from _exactly_one(source, kinds, (*where, "envFrom", number), "envFrom")


def _ports(container: dict[str, Any], where: Path) -> Iterator[Problem]:
    names: set[str] = set()
    for number, port in enumerate(container.get("ports") or []):
        name = port.get("name")
        if name and name in names:
            yield error(
                (*where, "ports", number, "name"),
                f"another port of this container has the name `{name}`",
                "rename one of them, or remove the name",
            )
        elif name:
            names.add(name)


def _probes(container: dict[str, Any], where: Path) -> Iterator[Problem]:
    for kind in _PROBES:
        if container.get(kind) is not None:
            yield from _exactly_one(container[kind], _HANDLERS, (*where, kind), kind)
    lifecycle = container.get("lifecycle") or {}
    for kind in _HOOKS:
        if lifecycle.get(kind) is not None:
            yield from _exactly_one(lifecycle[kind], _HOOK_HANDLERS, (*where, "lifecycle", kind), kind)


def _exactly_one(
    mapping: dict[str, Any], kinds: tuple[str, ...], where: Path, what: str
) -> Iterator[Problem]:
    found = [kind for kind in kinds if mapping.get(kind) is not None]
    if not found and kinds:
        yield error(where, f"{what} sets none of {', '.join(kinds)}", "add one of them")
    elif not found:
        yield error(where, f"{what} is empty", "add a source of the value, such as fieldRef")
    elif len(found) > 1:
        yield error(
            (*where, found[1]), f"{what} sets several of its fields: {listed(found)}", "keep one of them"
        )


def _resources(resources: dict[str, Any], where: Path) -> Iterator[Problem]:
    limits = _amounts(resources.get("limits"))
    requests = _amounts(resources.get("requests"))
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            place = (*where, kind, name)
            if amount.nano < 0:
                yield error(place, f"the amount {amount} is negative", "write a positive amount")
            elif "/" in name and amount.nano % quantity.NANO:
                yield error(
                    place,
                    f"{name} cannot be divided, and {amount} is not a whole number",
                    "write a whole number",
                )
    for name, amount in requests.items():
        limit = limits.get(name)
        place = (*where, "requests", name)
        if limit is None:
            if name not in _DIVISIBLE:
                yield error(
                    place,
                    f"{name} has a request and no limit; the limit must be equal to the request",
                    f"add `{name}: {amount}` to limits",
                )
        elif limit < amount:
            yield error(
                place, f"the request {amount} is larger than the limit {limit}", f"request at most {limit}"
            )
        elif name not in _DIVISIBLE and amount < limit:
            yield error(
                place, f"the request of {name} must be equal to its limit {limit}", f"request {limit}"
            )


def _huge_pages(resources: dict[str, Any], of_pod: dict[str, Any], where: Path) -> Iterator[Problem]:
    """Only the limits are checked: a request must be equal to its limit."""
    limits = _amounts(resources.get("limits"))
    pages = [name for name in limits if name.startswith(_HUGE_PAGES)]
    for name in pages:
        size, amount = name.removeprefix(_HUGE_PAGES), limits[name]
        page = _amounts({name: size}).get(name)
        if page is None or page.nano == 0:
            yield error(
                (*where, "limits", name),
                f"`{size}` is not a page size",
                "write hugepages-2Mi or hugepages-1Gi",
            )
        elif amount.nano > 0 and amount.nano % page.nano:
            yield error(
                (*where, "limits", name),
                f"{amount} is not a multiple of the page size {size}",
                f"write a multiple of {size}",
            )
    amounts = [each.get(kind) or {} for each in (resources, of_pod) for kind in ("limits", "requests")]
    if pages and not any(name in each for each in amounts for name in ("cpu", "memory")):
        yield error(
            where,
            "huge pages need cpu or memory, and this container has neither requests nor limits of them",
            "add `memory: ...` to the limits",
        )


def _amounts(named: dict[str, Any] | None) -> dict[str, quantity.Quantity]:
    """The amounts that can be read; the schema check has reported the others."""
    found = {}
    for name, value in (named or {}).items():
        if value is not None:
            try:
                found[name] = quantity.parse(value)
            except ValueError:
                continue
    return found
