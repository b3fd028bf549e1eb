"""The part of a document that can be read when some of its values have the wrong type.

All problems are reported at once, so the checks continue after a schema error: on a copy without the values
that cannot be read, and without reporting problems that only follow from those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vcjob.spec.document import copied
from vcjob.spec.problem import Path

_EMPTY = {"object": dict, "array": list, "string": str, "integer": int, "number": int, "boolean": bool}


class Unreadable:
    """The places of a document that cannot be read, each with the type that is wanted there.

    `admission.review` removes them, so that the other checks still run on what is left, and drops problems that only
    follow from them.
    """

    __slots__ = ("_above", "places")

    def __init__(self, places: Mapping[Path, str]) -> None:
        self.places = places
        self._above = {where[:length] for where in places for length in range(len(where))}

    def removed_from(self, data: dict[str, Any]) -> dict[str, Any]:
        """`data`, or a copy where each unreadable value is left out (in a list: replaced by an empty one)."""
        if not self.places:
            return data
        result: dict[str, Any] = copied(data)
        for where, wanted in self.places.items():
            _remove(result, where, wanted)
        return result

    def concerns(self, where: Path) -> bool:
        """Whether a problem at `where` only follows from an unreadable value above, at or below that place."""
        if not self.places:
            return False
        return where in self._above or any(where[:length] in self.places for length in range(len(where) + 1))


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
