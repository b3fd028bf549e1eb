"""JSON that is nested deeper than a decoder can follow."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.kube.api.codec import KEPT_LEVELS, cut_nesting, decode_nested, decode_page

#: As many levels as an API server accepts.
DEEPEST = 10_000


def nested(levels: int, inside: str = "{}") -> str:
    return '{"f:a":' * levels + inside + "}" * levels


def config_map(name: str, levels: int) -> str:
    """A ConfigMap as an API server delivers it: anybody can write such managed fields."""
    fields = f'"managedFields":[{{"fieldsV1":{nested(levels)}}}]'
    return f'{{"metadata":{{{fields},"name":"{name}","resourceVersion":"7"}},"data":{{"a":"b"}}}}'


_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='[]{}",:\\aä', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3)
    ),
)


@given(_values, st.sampled_from([None, 1]))
def test_a_document_with_few_levels_is_not_changed(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    assert cut_nesting(text) == text


@given(_values)
def test_only_what_lies_below_the_kept_levels_is_replaced(value: Any) -> None:
    text = f'{{"before":{json.dumps(value)},"deep":{nested(DEEPEST, json.dumps(value))},"after":{json.dumps(value)}}}'
    found = msgspec.json.decode(cut_nesting(text.encode()))
    assert (found["before"], found["after"]) == (value, value)
    level, inner = 1, found["deep"]
    while inner is not None:
        level, inner = level + 1, inner["f:a"]
    assert level == KEPT_LEVELS


@pytest.mark.parametrize(
    "text", [b"", b"]", b"[" * 300, b'{"a":[}', b'"', b'["' + b"\\" * 99, b"[" * 300 + b"]" * 400]
)
def test_invalid_json_stays_invalid(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(cut_nesting(text))


async def test_one_deep_object_does_not_affect_the_others_of_a_page() -> None:
    items = ",".join([config_map("a", 1), config_map("deep", DEEPEST - 5), config_map("b", 1)])
    page = await decode_nested(decode_page, f'{{"metadata":{{}},"items":[{items}]}}'.encode())
    found = [msgspec.json.decode(item) for item in page.items or ()]
    assert [(one["metadata"]["name"], one["data"]) for one in found] == [
        (name, {"a": "b"}) for name in ("a", "deep", "b")
    ]
