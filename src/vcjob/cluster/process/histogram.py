"""A histogram for Prometheus that counts with plain numbers.

The library's own histogram locks for each bucket and took a twentieth of the controller's CPU time. Used by `metrics`.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Histogram(Collector):
    """A histogram with at most one label. It is updated on one thread; a scrape from another may miss the latest
    value.

    `Metrics` uses it in place of the client library's, whose locks cost more than the work that is measured.
    """

    def __init__(self, name: str, help: str, buckets: tuple[float, ...], label: str = "") -> None:
        self._name, self._help, self._label = name, help, label
        self._bounds = buckets
        self._kept: dict[str, Counted] = {}

    def of(self, value: str = "") -> Counted:
        found = self._kept.get(value)
        if found is None:
            found = self._kept[value] = Counted(self._bounds)
        return found

    def describe(self) -> list[HistogramMetricFamily]:
        return [HistogramMetricFamily(self._name, self._help, labels=[self._label] if self._label else [])]

    def collect(self) -> list[HistogramMetricFamily]:
        (family,) = self.describe()
        for value, counted in list(self._kept.items()):
            family.add_metric([value] if self._label else [], *counted.read())
        return [family]


class Counted:
    """The number of values up to each bound, and their sum.

    One label value of a `Histogram`. Only one thread may call `observe`.
    """

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def read(self) -> tuple[list[tuple[str, float]], float]:
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        return list(zip(names, accumulate(self._counts), strict=True)), self._sum
