"""A short run of the fuzzer in `bench/fuzz/jobs.py`."""

from __future__ import annotations

import pytest

from bench.fuzz import jobs as fuzz


@pytest.mark.parametrize("seed", [1, 20261115])
def test_random_input_is_refused_with_a_reason_and_a_place(seed: int) -> None:
    outcomes = fuzz.run(1200, seed)
    assert sum(outcomes.values()) == 1200
    assert set(outcomes) == {"unreadable", "no job", "refused", "valid"}
