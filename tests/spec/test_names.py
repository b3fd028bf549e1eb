"""Kubernetes' rules for names."""

from __future__ import annotations

import pytest

from vcjob.spec import names


@pytest.mark.parametrize("name", ["a", "0", "a-b", "a" * 63, "1a"])
def test_dns_labels(name: str) -> None:
    assert names.dns_label(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "must not be empty"),
        ("a" * 64, "is 64 characters long; at most 63"),
        ("A", "lower-case"),
        ("a_b", "lower-case"),
        ("-a", "begin and end"),
        ("a-", "begin and end"),
        ("a.b", "lower-case"),
        ("é", "lower-case"),
        ("a\n", "lower-case"),
    ],
)
def test_an_invalid_dns_label(name: str, reason: str) -> None:
    assert reason in (names.dns_label(name) or "")


def test_a_service_name_begins_with_a_letter() -> None:
    assert names.service_name("a1") is None
    assert names.service_name("1a") == "must begin with a letter"
    assert "empty" in (names.service_name("") or "")
    assert "63" in (names.service_name("a" * 64) or "")


@pytest.mark.parametrize("name", ["a", "a.b", "a" * 253, "1.2.3"])
def test_subdomains(name: str) -> None:
    assert names.dns_subdomain(name) is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "empty"), ("a" * 254, "254"), ("a..b", "lower-case"), ("A.b", "lower-case"), (".a", "begin")],
)
def test_an_invalid_subdomain(name: str, reason: str) -> None:
    assert reason in (names.dns_subdomain(name) or "")


@pytest.mark.parametrize("value", ["", "a", "A.b_c-1", "a" * 63])
def test_label_values(value: str) -> None:
    assert names.label_value(value) is None


@pytest.mark.parametrize("value", ["a b", "-a", "a" * 64, "a/b"])
def test_an_invalid_label_value(value: str) -> None:
    assert names.label_value(value)
