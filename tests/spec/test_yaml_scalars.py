"""Unquoted YAML scalars have the same value as with kubectl."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.spec import scalars


@pytest.mark.parametrize("word", ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
def test_words_for_true(word: str) -> None:
    assert scalars.plain(word) is True


@pytest.mark.parametrize("word", ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
def test_words_for_false(word: str) -> None:
    assert scalars.plain(word) is False


@pytest.mark.parametrize("word", ["", "~", "null", "Null", "NULL"])
def test_words_for_nothing(word: str) -> None:
    assert scalars.plain(word) is None


@pytest.mark.parametrize("word", ["yEs", "oN", "nULL", "t", "f", "Truee", "none", "undefined"])
def test_other_spellings_are_text(word: str) -> None:
    assert scalars.plain(word) == word


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("7", 7),
        ("-7", -7),
        ("+7", 7),
        ("1_000", 1000),
        ("0x1F", 31),
        ("0X1f", 31),
        ("-0x10", -16),
        ("017", 15),
        ("0o17", 15),
        ("0O17", 15),
        ("0b101", 5),
        ("0B11", 3),
        ("-0b11", -3),
        ("08", 8),
        ("-09", -9),
        ("1e3", 1000),
        ("1E+3", 1000),
        ("1.0", 1),
        ("1.", 1),
        ("1.5", 1.5),
        ("-.5", -0.5),
        (".5", 0.5),
        ("5e-1", 0.5),
        ("1_0.5", 10.5),
        ("-0", 0),
    ],
)
def test_numbers(text: str, value: float) -> None:
    read = scalars.plain(text)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "22:22", "1:30", "190:20:30.15", "2026-11-15", "2026-11-15T10:00:00Z", "=", "1e", "0x", "0xg", "0b2", "1.2.3",
        "-", "+", ".", "..", "1a", "1e400", "-1e400", "0o8", "1Gi", "500m", "._5", "e3", "١", "9" * 401,
    ],
)  # fmt: skip
def test_what_looks_like_a_number_or_date_to_others_is_text(text: str) -> None:
    assert scalars.plain(text) == text


def test_infinity_and_nan_are_recognised_so_that_they_can_be_refused() -> None:
    assert scalars.plain(".inf") == scalars.plain("+.INF") == math.inf
    assert scalars.plain("-.Inf") == -math.inf
    assert math.isnan(scalars.plain(".NaN"))  # type: ignore[arg-type]


def test_keys_are_text() -> None:
    assert [scalars.key_text(value) for value in (True, False, 3, 2.5, "x")] == [
        "true",
        "false",
        "3",
        "2.5",
        "x",
    ]


@given(st.integers(-(10**300), 10**300))
def test_every_integer_is_read_back(number: int) -> None:
    assert scalars.plain(str(number)) == number


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    value = scalars.plain(text)
    assert value is None or isinstance(value, str | int | float)


@pytest.mark.parametrize(
    "text", ["", "²", "٣", "-1", "1_0", "+1", " 1", "1\n", "0x1", "150000", "2000000000", "9" * 5000]
)
def test_a_number_that_is_no_index_is_not_read(text: str) -> None:
    assert scalars.natural(text, 150_000) is None


def test_an_index_is_read_up_to_its_limit() -> None:
    assert [scalars.natural(text, 150_000) for text in ("0", "149999", "007")] == [0, 149_999, 7]
    assert (scalars.natural("2147483647"), scalars.natural("2147483648")) == (2**31 - 1, None)
