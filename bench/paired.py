"""Ratios of two variants of one thing on a noisy machine: pairs in ABBA order, their median and its confidence interval.

Pure arithmetic; the benchmarks measure. A pair's two runs follow each other, so that slow changes of the machine's speed
affect both; the order is reversed from pair to pair, so that going first is no advantage. The interval needs no
assumption about the noise: it is bounded by two of the ratios themselves (order statistics).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

CONFIDENCE = 0.95


class Interval(NamedTuple):
    """The median of some ratios and the bounds of its confidence interval. `confidence` is what the bounds really have."""

    median: float
    low: float
    high: float
    confidence: float
    pairs: int

    def verdict(self, most: float) -> str:
        """Whether the ratio is at most `most`: "met", "missed", or "undecided" where the interval contains it."""
        if self.confidence < CONFIDENCE:  # too few pairs
            return "undecided"
        if self.high <= most:
            return "met"
        return "missed" if self.low > most else "undecided"

    def __str__(self) -> str:
        return (
            f"{self.median:.3f} x ({self.confidence:.0%} interval {self.low:.3f} to {self.high:.3f}, "
            f"{self.pairs} pairs)"
        )


def abba(pairs: int) -> Iterator[tuple[bool, bool]]:
    """Which variant runs first and which second, for each pair: with and without, without and with, and so on."""
    for number in range(pairs):
        yield (False, True) if number % 2 else (True, False)


def interval(ratios: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median and its interval. With fewer than six ratios no bounds have 95 %: those of all of them are given."""
    ordered, count = sorted(ratios), len(ratios)
    if not ordered:
        raise ValueError("no ratios")
    skipped = max((k for k in range((count + 1) // 2) if _covered(count, k) >= confidence), default=0)
    return Interval(
        statistics.median(ordered),
        ordered[skipped],
        ordered[count - 1 - skipped],
        _covered(count, skipped),
        count,
    )


def _covered(count: int, skipped: int) -> float:
    """How likely the true median lies between the values that remain when `skipped` are left out at either end."""
    outside = sum(math.comb(count, below) for below in range(skipped + 1))
    return max(0.0, 1 - math.ldexp(outside, 1 - count))
