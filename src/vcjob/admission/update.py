"""Checks of an update: only the size, the priority and the suspension of an existing Job may change.

Both documents are compared with their defaults and without values that have no meaning (nulls, empty mappings
and lists, values that the API server fills in), so applying the same file again is not a change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from vcjob.admission import defaults
from vcjob.spec import quantity
from vcjob.spec.problem import Path, Problem, error, format_path
from vcjob.spec.wording import listed

_MUTABLE_JOB_FIELDS = ("minAvailable", "priorityClassName", "suspend")
_MUTABLE_TASK_FIELDS = ("replicas", "minAvailable")
# Values that the API server writes into a Job because its schema has them as defaults.
_SERVER_DEFAULTS = {"protocol": "TCP", "mode": "hard", "minPartitions": 0, "creationTimestamp": None}
_AMOUNTS = frozenset({"limits", "requests", "overhead"})
_AMOUNT_FIELDS = frozenset({"sizeLimit", "divisor"})
#: Fields whose text can be an amount.
_NOT_PLAIN_TEXT = _AMOUNTS | _AMOUNT_FIELDS
_MUTABLE = "minAvailable, tasks[*].replicas, tasks[*].minAvailable, priorityClassName and suspend"
_HINT = "delete the Job and create it again"
_MAX_PROBLEMS = 20
_MEANINGLESS: tuple[Any, ...] = ({}, [], "")


def check_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    before, after = _comparable(old), _comparable(new)
    problems = _tasks(before.pop("tasks"), after.pop("tasks"))
    return list(islice(chain(problems, map(_changed, _differences(before, after, ("spec",)))), _MAX_PROBLEMS))


def frozen_spec(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the spec that may not change, in one form for all documents between which `check_update` finds
    no difference."""
    form: dict[str, Any] = _canonical(_comparable(doc), "spec", in_amounts=False)
    return form


def _canonical(value: Any, key: str, *, in_amounts: bool) -> Any:
    """`in_amounts`: all numbers inside are amounts of a resource. One pass: what `_meaningful` leaves out is left out."""
    if isinstance(value, dict):
        form = {}
        for name, item in value.items():
            if item is None or (name in _SERVER_DEFAULTS and item == _SERVER_DEFAULTS[name]):
                continue
            if type(item) is not str or in_amounts or name in _NOT_PLAIN_TEXT:
                item = _canonical(item, name, in_amounts=in_amounts or name in _AMOUNTS)
            if item not in _MEANINGLESS:
                form[name] = item
        return form
    if isinstance(value, list):
        return [_canonical(item, "", in_amounts=in_amounts) for item in value]
    if in_amounts or key in _AMOUNT_FIELDS:
        try:
            return f"{quantity.parse(value).nano}n"
        except ValueError:
            return value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _comparable(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with its defaults, without the fields that may change."""
    spec = dict(defaults.apply(dict(doc))["spec"])
    for key in _MUTABLE_JOB_FIELDS:
        spec.pop(key, None)
    spec["tasks"] = [
        {k: v for k, v in task.items() if k not in _MUTABLE_TASK_FIELDS} for task in spec["tasks"]
    ]
    spec["volumes"] = [_volume(volume) for volume in spec.get("volumes") or []]
    plugins = spec.get("plugins") or {}
    # A plugin without arguments is used all the same, and one that another plugin requires may be added.
    spec["plugins"] = {name: arguments or ["(no arguments)"] for name, arguments in plugins.items()}
    if "pytorch" in plugins:
        spec["plugins"].setdefault("svc", ["(no arguments)"])
    return spec


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    """The controller writes the name of a new claim into the Job when it creates the claim."""
    if volume.get("volumeClaim"):
        return {key: value for key, value in volume.items() if key != "volumeClaimName"}
    return volume


def _tasks(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> Iterator[Problem]:
    before, after = [task["name"] for task in old], [task["name"] for task in new]
    if before != after:
        gone, added = listed(_missing(before, after)), listed(_missing(after, before))
        parts = [f"removed: {gone}"] * bool(gone) + [f"added: {added}"] * bool(added)
        what = "; ".join(parts) or "their order differs"
        yield error(("spec", "tasks"), f"job updates may not add or remove tasks ({what})", _HINT)
        return
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        yield from map(_changed, _differences(one, other, ("spec", "tasks", number)))


def _missing(names: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def _changed(where: Path) -> Problem:
    what = (
        f"`{format_path(where[-1:])}` cannot change: job updates may not change fields other than {_MUTABLE}"
    )
    return error(where, what, _HINT)


def _differences(old: Any, new: Any, where: Path) -> Iterator[Path]:
    """The innermost places where two values differ in meaning."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*new, *old]):
            yield from _differences(
                _meaningful(key, old.get(key)), _meaningful(key, new.get(key)), (*where, key)
            )
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, (*where, index))
    elif not _same(old, new, where):
        yield where


def _meaningful(key: str, value: Any) -> Any:
    """The value, or None where it has no meaning of its own."""
    if value in _MEANINGLESS or (key in _SERVER_DEFAULTS and value == _SERVER_DEFAULTS[key]):
        return None
    if isinstance(value, dict) and all(_meaningful(inner, item) is None for inner, item in value.items()):
        return None
    return value


def _same(old: Any, new: Any, where: Path) -> bool:
    if old == new and isinstance(old, bool) == isinstance(new, bool):
        return True
    if old is None or new is None or not _is_amount(where):
        return False
    try:
        return quantity.parse(old).nano == quantity.parse(new).nano
    except ValueError:
        return False


def _is_amount(where: Path) -> bool:
    return not _AMOUNTS.isdisjoint(where) or where[-1] in _AMOUNT_FIELDS
