"""Which attempt each index of a task is on, grouped by attempt: a restart of ten thousand pods changes one number.

Part of the status. Pure; raises nothing for input from outside (`parse` ignores what cannot be an attempt).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vcjob.lifecycle.indexset import COUNTER_LIMIT, EMPTY, IndexSet, parse_index

FIRST_ATTEMPT = 0


class Attempts:
    """An immutable map from index to attempt. An index in no group is on its first attempt."""

    __slots__ = ("groups",)

    def __init__(self, groups: dict[int, IndexSet] | None = None) -> None:
        self.groups = groups or {}

    @classmethod
    def parse(
        cls, groups: dict[str, str], parse_indexes: Callable[[str], IndexSet] = IndexSet.parse
    ) -> Attempts:
        """Groups as `to_json` writes them. What is no attempt is ignored; an index in two groups is on the higher."""
        parsed: dict[int, IndexSet] = {}
        for name, text in groups.items():
            attempt, indexes = parse_index(name, COUNTER_LIMIT), parse_indexes(text)
            if attempt and indexes:
                parsed[attempt] = indexes
        taken = EMPTY
        for attempt in sorted(parsed, reverse=True):
            parsed[attempt] -= taken
            taken |= parsed[attempt]
        return cls({attempt: parsed[attempt] for attempt in sorted(parsed) if parsed[attempt]})

    def to_json(self) -> dict[str, str]:
        return {str(attempt): str(self.groups[attempt]) for attempt in sorted(self.groups)}

    def of(self, index: int) -> int:
        for attempt, indexes in self.groups.items():
            if index in indexes:
                return attempt
        return FIRST_ATTEMPT

    def on(self, attempt: int, among: IndexSet) -> IndexSet:
        """Those of `among` whose current attempt is `attempt`."""
        if attempt != FIRST_ATTEMPT:
            return among & self.groups.get(attempt, EMPTY)
        for indexes in self.groups.values():
            among -= indexes
        return among

    def split(self, among: IndexSet) -> Iterator[tuple[int, IndexSet]]:
        """`among` grouped by current attempt, lowest attempt first."""
        if not among:
            return
        for attempt in (FIRST_ATTEMPT, *sorted(self.groups)):
            part = self.on(attempt, among)
            if part:
                yield attempt, part

    def advanced(self, indexes: IndexSet) -> Attempts:
        """A copy in which each of `indexes` is on its next attempt."""
        groups = {attempt: held - indexes for attempt, held in self.groups.items()}
        for attempt, part in self.split(indexes):
            groups[attempt + 1] = groups.get(attempt + 1, EMPTY) | part
        return Attempts({attempt: held for attempt, held in groups.items() if held})

    def behind(self, attempt: int, among: IndexSet) -> IndexSet:
        """Those of `among` whose current attempt is lower than `attempt`."""
        if attempt == FIRST_ATTEMPT:
            return EMPTY
        for held_attempt, held in self.groups.items():
            if held_attempt >= attempt:
                among -= held
        return among

    def raised(self, indexes: IndexSet, attempt: int) -> Attempts:
        """A copy in which `indexes` are on `attempt`."""
        groups = {number: held - indexes for number, held in self.groups.items()}
        groups[attempt] = groups.get(attempt, EMPTY) | indexes
        return Attempts({number: held for number, held in groups.items() if held})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attempts) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(tuple(sorted((attempt, held.mask) for attempt, held in self.groups.items())))

    def __repr__(self) -> str:
        return f"Attempts({self.to_json()!r})"
