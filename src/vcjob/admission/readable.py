"""The part of a document that can be read when some of its values have the wrong type.

All problems are reported at once, so the checks go on after a schema error: on a copy without what
cannot be read, and without reporting what only follows from that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vcjob.spec.problem import Path

_EMPTY = {"object": dict, "array": list, "string": str, "integer": int, "number": int, "boolean": bool}


def readable(data: dict[str, Any], unreadable: Mapping[Path, str]) -> dict[str, Any]:
    """`data` itself, or a copy where each unreadable value is left out (in a list: replaced by an empty one)."""
    if not unreadable:
        return data
    result: dict[str, Any] = _copy(data)
    for where, wanted in unreadable.items():
        _remove(result, where, wanted)
    return result


def is_readable(where: Path, unreadable: Iterable[Path]) -> bool:
    """Whether a problem at `where` is one of its own: not above, at or below what cannot be read."""
    return not any(where[: len(bad)] == bad or bad[: len(where)] == where for bad in unreadable)


def _remove(root: dict[str, Any], where: Path, wanted: str) -> None:
    parent: Any = root
    for step in where[:-1]:
        if isinstance(parent, dict) and isinstance(step, str):
            parent = parent.get(step)
        elif isinstance(parent, list) and isinstance(step, int):
            parent = parent[step]
        else:
            return  # something further out is unreadable as well
    if not where:
        root.clear()
    elif isinstance(parent, dict):
        parent.pop(where[-1], None)
    elif isinstance(parent, list):
        index = where[-1]
        assert isinstance(index, int)
        parent[index] = _EMPTY.get(wanted, dict)()


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
