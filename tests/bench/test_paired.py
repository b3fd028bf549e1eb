"""Ratios measured in pairs: their order, and the confidence interval of their median."""

from __future__ import annotations

import random
import statistics

import pytest

from bench.paired import abba, interval


def test_both_variants_go_first_equally_often_and_every_pair_has_both() -> None:
    order = list(abba(4))
    assert order == [(True, False), (False, True), (True, False), (False, True)]


@pytest.mark.parametrize(
    ("count", "low", "high", "confidence"),
    [(6, 1, 6, 0.969), (10, 2, 9, 0.979), (20, 6, 15, 0.959), (25, 8, 18, 0.957)],
)
def test_the_bounds_are_the_order_statistics_of_the_sign_test(
    count: int, low: int, high: int, confidence: float
) -> None:
    ratios = [float(value) for value in range(1, count + 1)]
    random.Random(7).shuffle(ratios)
    found = interval(ratios)
    assert (found.low, found.high) == (low, high)
    assert found.confidence == pytest.approx(confidence, abs=0.001)
    assert found.median == statistics.median(ratios)


def test_with_too_few_pairs_the_confidence_is_that_which_all_of_them_give() -> None:
    found = interval([1.0, 1.2, 1.1])
    assert (found.low, found.median, found.high) == (1.0, 1.1, 1.2)
    assert found.confidence == 0.75
    assert interval([1.0]).confidence == 0.0


def test_the_interval_contains_the_true_median_as_often_as_it_says() -> None:
    chance = random.Random(20261116)
    samples = [interval([chance.lognormvariate(0, 0.2) for _ in range(20)]) for _ in range(2000)]
    assert sum(each.low <= 1 <= each.high for each in samples) / 2000 == pytest.approx(0.959, abs=0.015)


def test_one_disturbed_pair_moves_neither_the_median_nor_the_bounds() -> None:
    quiet = [1 + number / 1000 for number in range(20)]
    assert interval([*quiet[:-1], 9.0])[:3] == interval(quiet)[:3]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([0.99, 1.0] * 5, "met"),
        ([1.02, 1.03] * 5, "missed"),
        ([0.99, 1.02] * 5, "undecided"),
        ([1.02, 1.03], "undecided"),
    ],
)
def test_a_goal_is_decided_only_by_enough_pairs_whose_interval_does_not_contain_it(
    ratios: list[float], verdict: str
) -> None:
    assert interval(ratios).verdict(1.01) == verdict


def test_no_ratios_are_no_result() -> None:
    with pytest.raises(ValueError, match="no ratios"):
        interval([])
