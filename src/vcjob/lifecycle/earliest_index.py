"""The index with the earliest time in a changing set, in O(log n) per change.

`Observed` keeps some for each task (pods that are pending, unknown, evicted, failed), and policies with a timeout ask
them which pods are due. It knows indexes and times only, nothing of pods.
"""

from __future__ import annotations

import heapq

from vcjob.lifecycle.indexset import EMPTY, IndexSet


class EarliestIndex:
    """Indexes with a time each. Outdated heap entries are removed when they reach the top or outnumber the others.

    `Observed` adds and discards indexes as pods change; decisions only ask.
    """

    __slots__ = ("_heap", "_times", "indexes")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._times: dict[int, float] = {}
        self.indexes = EMPTY

    def add(self, index: int, time: float) -> None:
        if self._times.get(index) != time:
            self._times[index] = time
            self.indexes = self.indexes.with_index(index)
            heapq.heappush(self._heap, (time, index))
            self._tidy()

    def discard(self, index: int) -> None:
        if self._times.pop(index, None) is not None:
            self.indexes = self.indexes.without_index(index)
            self._tidy()

    def first(self, among: IndexSet) -> tuple[float, int] | None:
        """The earliest (time, index) whose index is in `among`.

        The heap is searched from its top and not changed: the next call may pass another `among`.
        """
        heap, frontier = self._heap, [(self._heap[0], 0)] if among and self._heap else []
        while frontier:
            (time, index), place = heapq.heappop(frontier)
            if index in among and self._times.get(index) == time:
                return time, index
            for child in (2 * place + 1, 2 * place + 2):
                if child < len(heap):
                    heapq.heappush(frontier, (heap[child], child))
        return None

    def due(self, among: IndexSet, delay: float, by: float) -> IndexSet:
        """Those of `among` whose time plus `delay` is at most `by`. The cost is that of the indexes that are."""
        heap, places, found = self._heap, [0], []
        while places:
            place = places.pop()
            if place < len(heap) and heap[place][0] + delay <= by:
                time, index = heap[place]
                if self._times.get(index) == time:
                    found.append(index)
                places += 2 * place + 1, 2 * place + 2
        return among & IndexSet.of_ranges([(index, index) for index in sorted(found)])

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._times) + 8:
            self._heap = [(time, index) for index, time in self._times.items()]
            heapq.heapify(self._heap)
        while self._heap and self._times.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
