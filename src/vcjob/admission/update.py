"""What may change while a Job lives: its size, its priority, whether it is suspended; nothing else.

Both sides are compared with their defaults and without what says nothing (nulls, empty mappings and
lists, values that the API server fills in), so applying the same file again is no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any

from vcjob.admission import defaults
from vcjob.spec import quantity
from vcjob.spec.problem import Path, Problem, error, format_path
from vcjob.spec.wording import listed

_FREE_OF_JOB = ("minAvailable", "priorityClassName", "suspend")
_FREE_OF_TASK = ("replicas", "minAvailable")
# What the API server writes into a Job by the schema of its kind.
_FILLED_IN = {"protocol": "TCP", "mode": "hard", "minPartitions": 0, "creationTimestamp": None}
_AMOUNTS = frozenset({"limits", "requests", "overhead"})
_FREE = "minAvailable, tasks[*].replicas, tasks[*].minAvailable, priorityClassName and suspend"
_HINT = "delete the Job and create it again"
_SHOWN = 20


def check_update(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Problem]:
    before, after = _comparable(old), _comparable(new)
    problems = _tasks(before.pop("tasks"), after.pop("tasks"))
    return list(islice(chain(problems, map(_changed, _differences(before, after, ("spec",)))), _SHOWN))


def frozen_spec(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the spec that may not change, in one form for all documents between which `check_update` finds
    no difference."""
    form: dict[str, Any] = _canonical(_comparable(doc), ("spec",))
    return form


def _canonical(value: Any, where: Path) -> Any:
    if isinstance(value, dict):
        said = ((key, _said(key, item)) for key, item in value.items())
        return {key: _canonical(item, (*where, key)) for key, item in said if item is not None}
    if isinstance(value, list):
        return [_canonical(item, (*where, number)) for number, item in enumerate(value)]
    if _is_amount(where):
        try:
            return f"{quantity.parse(value).nano}n"
        except ValueError:
            return value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _comparable(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The spec with its defaults, without what may change."""
    spec = dict(defaults.apply(dict(doc))["spec"])
    for key in _FREE_OF_JOB:
        spec.pop(key, None)
    spec["tasks"] = [{k: v for k, v in task.items() if k not in _FREE_OF_TASK} for task in spec["tasks"]]
    spec["volumes"] = [_volume(volume) for volume in spec.get("volumes") or []]
    plugins = spec.get("plugins") or {}
    # An open plugin with no arguments is open all the same; one that is forced on is there by right.
    spec["plugins"] = {name: arguments or ["(no arguments)"] for name, arguments in plugins.items()}
    if "pytorch" in plugins:
        spec["plugins"].setdefault("svc", ["(no arguments)"])
    return spec


def _volume(volume: dict[str, Any]) -> dict[str, Any]:
    """A new claim's name is written into the Job when the claim is made."""
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
    what = f"`{format_path(where[-1:])}` cannot change: job updates may not change fields other than {_FREE}"
    return error(where, what, _HINT)


def _differences(old: Any, new: Any, where: Path) -> Iterator[Path]:
    """The deepest places where two values differ in meaning."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*new, *old]):
            yield from _differences(_said(key, old.get(key)), _said(key, new.get(key)), (*where, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, (*where, index))
    elif not _same(old, new, where):
        yield where


def _said(key: str, value: Any) -> Any:
    """A value, or None where it says nothing."""
    if value in ({}, [], "") or (key in _FILLED_IN and value == _FILLED_IN[key]):
        return None
    if isinstance(value, dict) and all(_said(inner, item) is None for inner, item in value.items()):
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
    return bool(_AMOUNTS & set(where)) or where[-1] in ("sizeLimit", "divisor")
