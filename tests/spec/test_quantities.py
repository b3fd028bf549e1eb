"""Quantities are exact and formatted as Kubernetes formats them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vcjob.spec import quantity
from vcjob.spec.quantity import NANO, Quantity, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("1", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5"),
        ("500m", "500m"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1000k", "1M"),
        ("1.5G", "1500M"),
        ("100n", "100n"),
        ("1000u", "1m"),
        ("0.1n", "1n"),
        ("12.3n", "13n"),
        ("0.0012u", "2n"),
        ("1024", "1024"),
        ("1Ki", "1Ki"),
        ("512Ki", "512Ki"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("1Ei", "1Ei"),
        ("3e3", "3e3"),
        ("3E3", "3e3"),
        ("1e-3", "1e-3"),
        ("12e0", "12"),
        ("15e2", "1500"),
        ("-1.5", "-1500m"),
        ("+2", "2"),
        ("-2Gi", "-2Gi"),
        ("9E", "9E"),
        ("100E", "9223372036854775807"),
        ("1e99", "9223372036854775807"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


def test_the_longest_text_is_still_read() -> None:
    assert parse("0" * 199 + "7").value == 7
    with pytest.raises(ValueError, match="is not a quantity"):
        parse("0" * 200 + "7")


@pytest.mark.parametrize("value", [3, 0.5, 10**12])
def test_numbers_are_read_as_their_text(value: float) -> None:
    assert parse(value).nano == int(value * NANO)


@pytest.mark.parametrize(
    "text", ["", "x", "1 Gi", "1GB", "Gi", "1ki", "1K", "--1", "1e", "1e1.5", "0x10", "1,5", "1" * 201, "١"]
)
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        parse(text)


@pytest.mark.parametrize(
    ("amounts", "sum_"),
    [
        (["2", "2500m"], "4500m"),
        (["1Gi", "512Mi"], "1536Mi"),
        (["1Gi", "1G"], "2073741824"),
        (["1Gi", "1024k"], "1049576Ki"),
        (["1024k", "1Gi"], "1074765824"),
        (["0", "1Gi"], "1Gi"),
        ([], "0"),
        (["500m", "500m"], "1"),
    ],
)
def test_sums_keep_the_first_amounts_way_of_writing(amounts: list[str], sum_: str) -> None:
    assert str(sum(map(parse, amounts), start=Quantity(0))) == sum_


def test_multiplying_and_comparing() -> None:
    assert str(parse("500m") * 3) == "1500m"
    assert str(parse("1Gi") * 2) == "2Gi"
    assert parse("1Gi") < parse("2G")
    assert not parse("1Gi") < parse("1024Mi")


def test_values_are_rounded_up() -> None:
    assert (parse("1500m").value, parse("1500m").milli) == (2, 1500)
    assert (parse("1500u").value, parse("1500u").milli) == (1, 2)
    assert parse("-1500m").value == -1
    assert parse("3").value == 3


@pytest.mark.parametrize(
    ("text", "form"), [("1", "decimal"), ("1k", "decimal"), ("1Ki", "binary"), ("1e3", "exponent")]
)
def test_the_way_of_writing_is_remembered(text: str, form: str) -> None:
    assert parse(text).format == form
    assert parse("1").format == Quantity(NANO).format


_SUFFIXES: dict[str, int | Fraction] = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 1024,
    "Mi": 1024**2,
    "Gi": 1024**3,
    "m": Fraction(1, 1000),
}


@given(st.integers(0, 10**6), st.integers(0, 999), st.sampled_from(sorted(_SUFFIXES)))
def test_parsing_is_exact_to_a_billionth(whole: int, thousandths: int, suffix: str) -> None:
    exact = (whole + Fraction(thousandths, 1000)) * _SUFFIXES[suffix] * NANO
    nano = parse(f"{whole}.{thousandths:03d}{suffix}").nano
    assert 0 <= nano - exact < 1


@given(st.integers(-(10**20), 10**20), st.sampled_from(["decimal", "binary", "exponent"]))
@example(625_000 * NANO, "binary")  # written without a suffix, so read as decimal: Kubernetes does the same
def test_the_canonical_form_means_the_same(nano: int, form: quantity.Format) -> None:
    written = str(Quantity(nano, form))
    again = parse(written)
    assert again.nano == nano
    assert str(again) == written or again.format != form
