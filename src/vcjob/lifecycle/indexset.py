"""Sets of pod indexes, kept compact: ten thousand indexes are one integer of 1,250 bytes.

An index is a bit number here, so an index from outside (a pod's label, a stored status) must be bounded
before it reaches an `IndexSet`: `spec.scalars.natural` and `IndexSet.parse` do that and never raise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from vcjob.admission.limits import MAX_REPLICAS

_RUN_OF_ONES = re.compile("1+")
_BYTES_WITH_ONES = re.compile(rb"[^\0]+")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)

#: Every index is below this: a Job has at most as many pods.
INDEX_LIMIT = MAX_REPLICAS
#: Attempts and versions read from outside are below this.
COUNTER_LIMIT = 2**31


def _fill(content: bytearray, first: int, last: int) -> None:
    """Set the bits from `first` to `last`."""
    low, high = first // 8, last // 8
    head, tail = 0xFF << first % 8 & 0xFF, 0xFF >> 7 - last % 8
    if low == high:
        content[low] |= head & tail
    else:
        content[low] |= head
        content[low + 1 : high] = b"\xff" * (high - low - 1)
        content[high] |= tail


class IndexSet:
    """An immutable set of indexes ≥ 0 with the algebra of sets; as text it is ranges: `0-41,43`.

    Callers bound the indexes that they add (see `INDEX_LIMIT`).
    """

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
        """The set that `text` writes. Parts that are no range are ignored, and so are indexes from INDEX_LIMIT on:
        a stored status may have been edited by anyone. Never raises."""
        found = (_RANGE.fullmatch(part) for part in text.split(","))
        return cls.of_ranges(sorted((int(match[1]), int(match[2] or match[1])) for match in found if match))

    @classmethod
    def of_ranges(cls, ranges: Iterable[tuple[int, int]], limit: int = INDEX_LIMIT) -> IndexSet:
        """The indexes below `limit` in ascending ranges (first, last), which may overlap. Linear in the ranges and in the
        bytes of the set."""
        ranges = list(ranges)
        stop = min(max((last for _, last in ranges), default=-1) + 1, limit)
        content = bytearray((stop + 7) // 8)
        end = 0
        for first, last in ranges:
            first, last = max(first, end), min(last, limit - 1)
            if first <= last:
                _fill(content, first, last)
                end = last + 1
        return cls(int.from_bytes(content, "little"))

    def ranges(self) -> Iterator[tuple[int, int]]:
        """The runs of neighbouring indexes, ascending, as (first, last)."""
        skipped = max(self.first() // 8, 0)
        mask = self.mask >> 8 * skipped
        content = mask.to_bytes((mask.bit_length() + 7) // 8, "little")
        for part in _BYTES_WITH_ONES.finditer(content):  # a run does not go on beyond a byte of zeros
            start = 8 * (skipped + part.start())
            for run in _RUN_OF_ONES.finditer(bin(int.from_bytes(part[0], "little"))[:1:-1]):
                yield start + run.start(), start + run.end() - 1

    def first(self) -> int:
        """The lowest index; the set must not be empty."""
        return (self.mask & -self.mask).bit_length() - 1

    def with_index(self, index: int) -> IndexSet:
        return IndexSet(self.mask | 1 << index)

    def without_index(self, index: int) -> IndexSet:
        return IndexSet(self.mask & ~(1 << index))

    # Most sets of a Job are empty, or the same object: an operand is returned where it is the result.

    def __or__(self, other: IndexSet) -> IndexSet:
        if not other.mask or self is other:
            return self
        return IndexSet(self.mask | other.mask) if self.mask else other

    def __and__(self, other: IndexSet) -> IndexSet:
        if not other.mask or self is other:
            return other
        return IndexSet(self.mask & other.mask) if self.mask else self

    def __sub__(self, other: IndexSet) -> IndexSet:
        if self is other:
            return EMPTY
        # As `& ~`, at the cost of the smaller set.
        return IndexSet(self.mask ^ (self.mask & other.mask)) if self.mask and other.mask else self

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
        return self is other or (isinstance(other, IndexSet) and self.mask == other.mask)

    def __hash__(self) -> int:
        return hash(self.mask)

    def __str__(self) -> str:
        if not self.mask:
            return ""
        return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in self.ranges())

    def summary(self, limit: int = 200) -> str:
        """The text for users: ranges up to about `limit` characters, then how many indexes there are in all."""
        parts, length = [], 0
        for first, last in self.ranges():
            parts.append(f"{first}-{last}" if last > first else f"{first}")
            length += len(parts[-1]) + 1
            if length > limit + 1:
                return f"{','.join(parts)[:limit].rpartition(',')[0]},… ({len(self)} in all)"
        return ",".join(parts)

    def __repr__(self) -> str:
        return f"IndexSet({str(self)!r})"


EMPTY = IndexSet()
