"""`Definition`: one documented name, and the list in which it is kept.

The other modules of this package fill such lists when they are imported, and `scripts/generate_reference.py` prints
them. A name that is defined twice raises ValueError at import.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

N = TypeVar("N", str, int)


class Definition(NamedTuple):
    """A name (or exit code), where it appears and what it means."""

    name: str | int
    where: str
    meaning: str


class Definitions(list[Definition]):
    """All definitions of one page, in the order in which they were made.

    `add` returns the plain name, so a constant can be assigned in the statement that documents it.
    A second definition of a name is a programming error and raises ValueError.
    """

    def add(self, name: N, where: str, meaning: str) -> N:
        if any(known.name == name for known in self):
            raise ValueError(f"{name!r} is defined twice")
        self.append(Definition(name, where, meaning))
        return name
