"""Sets of pod indexes, kept compact: ten thousand indexes are one integer of 1,250 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_RUN_OF_ONES = re.compile("1+")


class IndexSet:
    """An immutable set of indexes ≥ 0 with the algebra of sets; as text it is ranges: `0-41,43`."""

    __slots__ = ("mask",)

    def __init__(self, mask: int = 0) -> None:
        self.mask = mask

    @classmethod
    def of(cls, indexes: Iterable[int]) -> IndexSet:
        mask = 0
        for index in indexes:
            mask |= 1 << index
        return cls(mask)

    @classmethod
    def span(cls, start: int, stop: int) -> IndexSet:
        """The indexes from `start` up to, not including, `stop`."""
        return cls((1 << stop) - (1 << start)) if stop > start else cls()

    @classmethod
    def parse(cls, text: str) -> IndexSet:
        mask = 0
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            mask |= (1 << int(last or first) + 1) - (1 << int(first))
        return cls(mask)

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The runs of neighbouring indexes, ascending, as (first, last)."""
        for run in _RUN_OF_ONES.finditer(bin(self.mask)[:1:-1]):
            yield run.start(), run.end() - 1

    def first(self) -> int:
        """The lowest index; the set must not be empty."""
        return (self.mask & -self.mask).bit_length() - 1

    def with_index(self, index: int) -> IndexSet:
        return IndexSet(self.mask | 1 << index)

    def without_index(self, index: int) -> IndexSet:
        return IndexSet(self.mask & ~(1 << index))

    def below(self, stop: int) -> IndexSet:
        return IndexSet(self.mask & ((1 << stop) - 1))

    def __or__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.mask | other.mask)

    def __and__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.mask & other.mask)

    def __sub__(self, other: IndexSet) -> IndexSet:
        return IndexSet(self.mask & ~other.mask)

    def __contains__(self, index: int) -> bool:
        return bool(self.mask >> index & 1)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self.mask == other.mask

    def __hash__(self) -> int:
        return hash(self.mask)

    def __str__(self) -> str:
        return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in self.ranges())

    def __repr__(self) -> str:
        return f"IndexSet({str(self)!r})"


EMPTY = IndexSet()
