"""Durations are parsed as Go parses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.spec.duration import MAX_LENGTH, DurationTooLong, nanoseconds, seconds
from vcjob.spec.schema import job_schema

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("90s", 90 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        (".5s", SECOND // 2),
        ("1.25s", SECOND + SECOND // 4),
        ("1.s", SECOND),
        ("2m0.5s", 120 * SECOND + SECOND // 2),
        ("300ms", 300_000_000),
        ("5us", 5000),
        ("5µs", 5000),
        ("5μs", 5000),
        ("7ns", 7),
        ("0.5ns", 0),
        ("+1s", SECOND),
        ("-1m", -60 * SECOND),
        ("1s1s", 2 * SECOND),
    ],
)
def test_what_go_accepts(text: str, value: int) -> None:
    assert nanoseconds(text) == value


@pytest.mark.parametrize("text", ["", "1", "s", "1d", "1h 30m", "1,5s", "--1s", "1s-", ".s", "1e3s", "٣s"])
def test_what_go_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        nanoseconds(text)


def test_a_duration_beyond_292_years_is_refused() -> None:
    assert nanoseconds("2562047h") == 2562047 * 3600 * SECOND
    assert nanoseconds("9223372036854775807ns") == 2**63 - 1
    for text in ("2562048h", "9223372036854775808ns", f"{'9' * 62}ns", f"1s{'9' * 60}s"):
        with pytest.raises(DurationTooLong, match="too long"):
            nanoseconds(text)


def test_leading_zeros_and_decimals_are_read() -> None:
    assert nanoseconds(f"{'0' * 60}1s") == SECOND
    assert nanoseconds(f"0.5{'0' * 60}s") == SECOND // 2


def test_text_that_is_longer_than_any_duration_is_not_read() -> None:
    assert nanoseconds("1ns" * 21) == 21
    for text in ("1ns" * 22, "1ns" * 300_000, "x" * 300_000):
        with pytest.raises(ValueError, match="more than 64 characters") as caught:
            nanoseconds(text)
        assert len(str(caught.value)) < 150


def test_the_schema_has_the_same_limit() -> None:
    assert job_schema()["$defs"]["Duration"]["maxLength"] == MAX_LENGTH


def test_seconds() -> None:
    assert seconds("1m30s500ms") == 90.5


@given(st.integers(0, 10**4), st.integers(0, 59), st.integers(0, 59))
def test_parts_add_up(hours: int, minutes: int, rest: int) -> None:
    assert nanoseconds(f"{hours}h{minutes}m{rest}s") == (hours * 3600 + minutes * 60 + rest) * SECOND
