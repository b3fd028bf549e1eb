"""Which attempt each index of a task is on, grouped by attempt: a restart of ten thousand pods changes one number.

Part of the status. Pure; raises nothing for input from outside (`parse` ignores what cannot be an attempt).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from vcjob.lifecycle.indexset import COUNTER_LIMIT, EMPTY, IndexSet
from vcjob.spec.scalars import natural

FIRST_ATTEMPT = 0
#: Attempts that are taken over from pods are below this, so that every index still has a billion attempts left.
ADOPTED_LIMIT = COUNTER_LIMIT // 2
#: The same for those of a stored status, in which pods of such attempts may have been restarted since.
STORED_LIMIT = COUNTER_LIMIT - 1_000_000
#: Groups up to which pods add groups of their own. More than these come from pods that vcjob has not created.
ADOPTED_GROUPS = 100


class Attempts:
    """An immutable map from index to attempt. An index in no group is on its first attempt.

    Part of what the status records of a task. A replaced pod has a higher attempt, so that a late report about the
    old one is recognised.
    """

    __slots__ = ("_later", "groups")

    def __init__(self, groups: dict[int, IndexSet] | None = None) -> None:
        self.groups = groups or {}
        self._later: IndexSet | None = None

    @classmethod
    def parse(
        cls, groups: dict[str, str], parse_indexes: Callable[[str], IndexSet] = IndexSet.parse
    ) -> Attempts:
        """Groups as `to_json` writes them. What is no attempt is ignored; an index in two groups is on the higher."""
        parsed: dict[int, IndexSet] = {}
        for name, text in groups.items():
            attempt, indexes = natural(name, STORED_LIMIT), parse_indexes(text)
            if attempt and indexes:
                parsed[attempt] = indexes
        taken = EMPTY
        for attempt in sorted(parsed, reverse=True):
            parsed[attempt] -= taken
            taken |= parsed[attempt]
        return cls({attempt: parsed[attempt] for attempt in sorted(parsed) if parsed[attempt]})

    def to_json(self, write_indexes: Callable[[IndexSet], str] = str) -> dict[str, str]:
        return {str(attempt): write_indexes(self.groups[attempt]) for attempt in sorted(self.groups)}

    def of(self, index: int) -> int:
        for attempt, indexes in self.groups.items():
            if index in indexes:
                return attempt
        return FIRST_ATTEMPT

    def on(self, attempt: int, among: IndexSet) -> IndexSet:
        """Those of `among` whose current attempt is `attempt`."""
        if attempt != FIRST_ATTEMPT:
            return among & self.groups.get(attempt, EMPTY)
        if self._later is None:
            self._later = EMPTY
            for indexes in self.groups.values():
                self._later |= indexes
        return among - self._later

    def split(self, among: IndexSet) -> Iterator[tuple[int, IndexSet]]:
        """`among` grouped by current attempt, lowest attempt first."""
        if not among:
            return
        for attempt in (FIRST_ATTEMPT, *sorted(self.groups)):
            part = self.on(attempt, among)
            if part:
                yield attempt, part
                among -= part
                if not among:
                    return

    def advanced(self, indexes: IndexSet) -> Attempts:
        """A copy in which each of `indexes` is on its next attempt."""
        groups = {attempt: held - indexes for attempt, held in self.groups.items()}
        for attempt, part in self.split(indexes):
            groups[attempt + 1] = groups.get(attempt + 1, EMPTY) | part
        return Attempts({attempt: held for attempt, held in groups.items() if held})

    def adopted(self, seen: Mapping[int, IndexSet]) -> tuple[Attempts, IndexSet]:
        """A copy in which no index is on a lower attempt than a pod that was seen, and the indexes that were raised.

        `seen` has the indexes of pods by their attempt. Each attempt is visited once, the highest first. Where pods would
        add groups beyond ADOPTED_GROUPS, all raised indexes get the highest attempt of all instead, so that at most their
        pods of that attempt are current."""
        known = self.groups
        raised: dict[int, IndexSet] = {}
        at_least = behind = EMPTY  # on this attempt or a higher one, in the status or by a pod
        for attempt in sorted(known.keys() | seen.keys(), reverse=True):
            at_least |= known.get(attempt, EMPTY)
            if FIRST_ATTEMPT < attempt < ADOPTED_LIMIT:
                lower = seen.get(attempt, EMPTY) - at_least
                if lower:
                    raised[attempt] = lower
                    behind |= lower
                    at_least |= lower
        if not raised:
            return self, EMPTY
        if len(known.keys() | raised.keys()) > max(ADOPTED_GROUPS, len(known)):
            raised = {max(*known, *raised): behind}
        groups = {attempt: held - behind for attempt, held in known.items()}
        for attempt, indexes in raised.items():
            groups[attempt] = groups.get(attempt, EMPTY) | indexes
        return Attempts({attempt: held for attempt, held in groups.items() if held}), behind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attempts) and self.groups == other.groups

    def __hash__(self) -> int:
        return hash(tuple(sorted((attempt, held.mask) for attempt, held in self.groups.items())))

    def __repr__(self) -> str:
        return f"Attempts({self.to_json()!r})"
