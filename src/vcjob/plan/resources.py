"""The resources that a pod requests, counted as Kubernetes counts them.

Containers run at the same time, so they add up; init containers run one after the other before them, so only
the largest counts; an init container with restartPolicy Always keeps running, so it adds to all that follow. A
limit without a request counts as a request. Resources of the pod as a whole replace the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from vcjob.spec.quantity import Quantity, parse

Amounts: TypeAlias = dict[str, Quantity]

_ONE = Quantity(1_000_000_000)
_HUGE_PAGES = "hugepages-"
#: Quotas also use the names `requests.<name>` and `limits.<name>` for these.
_COMPUTE = ("cpu", "memory", "ephemeral-storage")


def pod_requests(spec: Mapping[str, Any]) -> Amounts:
    sums = _aggregate(spec, _requests_of)
    whole = spec.get("resources") or {}
    # Of a pod's own limits, only those that no container's request covers become requests.
    for name, amount in _read(whole.get("limits")).items():
        if _counts_for_pod(name):
            sums.setdefault(name, amount)
    sums |= {name: amount for name, amount in _read(whole.get("requests")).items() if _counts_for_pod(name)}
    return total([sums, _read(spec.get("overhead"))])


def pod_limits(spec: Mapping[str, Any]) -> Amounts:
    sums = _aggregate(spec, _limits_of)
    own = _read((spec.get("resources") or {}).get("limits"))
    sums |= {name: amount for name, amount in own.items() if _counts_for_pod(name)}
    overhead = _read(spec.get("overhead"))
    return {name: amount + overhead.get(name, Quantity(0)) for name, amount in sums.items()}


def group_names(requests: Amounts, limits: Amounts) -> Amounts:
    """One pod's amounts by the names that quotas and Volcano's queues use."""
    named = {"count/pods": _ONE, "pods": _ONE}
    for name, amount in requests.items():
        named[name] = amount
        named[f"requests.{name}"] = amount
    named |= {f"limits.{name}": limits[name] for name in _COMPUTE if name in limits}
    return named


def times(amounts: Amounts, count: int) -> Amounts:
    return {name: amount * count for name, amount in amounts.items()}


def total(several: Iterable[Amounts]) -> Amounts:
    sums: Amounts = {}
    for amounts in several:
        for name, amount in amounts.items():
            sums[name] = sums[name] + amount if name in sums else amount
    return sums


def render(amounts: Amounts) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _aggregate(spec: Mapping[str, Any], of: Callable[[Mapping[str, Any]], Amounts]) -> Amounts:
    running = total(of(container) for container in spec.get("containers") or ())
    staying: Amounts = {}
    largest: Amounts = {}
    for container in spec.get("initContainers") or ():
        own = of(container)
        if container.get("restartPolicy") == "Always":
            running = total([running, own])
            staying = total([staying, own])
            own = staying
        else:
            own = total([own, staying])
        largest = _max(largest, own)
    return _max(running, largest)


def _limits_of(container: Mapping[str, Any]) -> Amounts:
    return _read((container.get("resources") or {}).get("limits"))


def _requests_of(container: Mapping[str, Any]) -> Amounts:
    return _limits_of(container) | _read((container.get("resources") or {}).get("requests"))


def _max(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(part[name] for part in (one, other) if name in part) for name in {**one, **other}}


def _read(amounts: Mapping[str, Any] | None) -> Amounts:
    return {name: parse(amount) for name, amount in (amounts or {}).items() if amount is not None}


def _counts_for_pod(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)
