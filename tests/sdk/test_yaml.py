"""YAML that people read and that every reader reads back as it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from vcjob.sdk.yaml_text import to_yaml, to_yaml_stream
from vcjob.spec.source import load_documents

texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], include_characters="\n\t\r"), max_size=40
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)
# Words that some reader takes for a number, a date, a boolean or null.
words = "1e3 0o17 0x1f 017 1_000 1:30 2024-01-01 y n Y NO on off yes true False null ~ .5 .inf -.nan +1 = << - : ? # & *"
spaced = [
    "",
    " ",
    "\n",
    "\n\n",
    " a",
    "a ",
    "a\n",
    "\na",
    "a: b",
    "- a",
    "a #b",
    "\t",
    "é",
    "a\u2028b",
    "a\x85b",
]
tricky = st.sampled_from([*words.split(), *"!|>%@`'\"", "---", "...", *spaced])


@settings(deadline=None)
@given(st.dictionaries(texts | tricky, values | tricky, max_size=5))
def test_what_is_written_is_read_back_equal(document: dict[str, Any]) -> None:
    assert yaml.load(to_yaml(document), yaml.CSafeLoader) == document
    assert yaml.load(to_yaml(document), yaml.SafeLoader) == document


@settings(deadline=None)
@given(st.lists(tricky | texts, max_size=6))
def test_our_own_loader_reads_text_back_as_text(items: list[str]) -> None:
    [document] = load_documents(to_yaml({"items": items}))
    assert document.problems == []
    assert document.data == {"items": items}


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("plain text", "plain text"),
        ("0", '"0"'),
        ("1e3", '"1e3"'),
        ("y", '"y"'),
        ("No", '"No"'),
        ("", '""'),
        ("a\nb", "|-\n  a\n  b"),
        ("a\n  b\n", "|\n  a\n    b"),
        ("#!/bin/sh\nexit 0\n", "|\n  #!/bin/sh\n  exit 0"),
        (True, "true"),
        (None, "null"),
        (12, "12"),
        ({}, "{}"),
        ([], "[]"),
        ("x" * 200 + " " + "y" * 200, "x" * 200 + " " + "y" * 200),
    ],
)
def test_how_values_are_written(value: object, written: str) -> None:
    assert to_yaml({"a": value}) == f"a: {written}\n"


def test_keys_keep_their_order_and_shared_parts_are_written_out() -> None:
    shared = {"b": 1, "a": 2}
    assert (
        to_yaml({"z": shared, "b": [shared, shared]})
        == "z:\n  b: 1\n  a: 2\nb:\n- b: 1\n  a: 2\n- b: 1\n  a: 2\n"
    )


def test_documents_are_divided_and_one_needs_no_mark() -> None:
    assert list(to_yaml_stream([{"a": 1}, {"b": 2}])) == ["a: 1\n", "---\nb: 2\n"]
    assert list(to_yaml_stream([])) == []
