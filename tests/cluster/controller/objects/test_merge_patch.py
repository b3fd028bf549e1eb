"""Merge patches."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.controller.harness import merged
from vcjob.cluster.controller.objects.merge_patch import merge_patch, owned_patch

values = st.recursive(
    st.one_of(st.integers(0, 3), st.text("ab", max_size=2), st.lists(st.integers(0, 2), max_size=2)),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from("abcd"), values, max_size=4)


@given(documents, documents)
def test_a_patched_document_is_the_new_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merged(old, merge_patch(old, new)) == new


@given(documents)
def test_equal_documents_need_no_patch(document: dict[str, Any]) -> None:
    assert merge_patch(document, document) == {}
    assert owned_patch(document, document) == {}


@given(documents, documents)
def test_a_patched_document_has_everything_that_is_wanted(
    actual: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert owned_patch(merged(actual, owned_patch(actual, wanted)), wanted) == {}


def test_fields_of_others_are_left_alone() -> None:
    assert owned_patch({"clusterIP": "None", "ipFamilies": ["IPv4"]}, {"clusterIP": "None"}) == {}


def test_a_selector_holds_what_is_wanted_and_nothing_else() -> None:
    actual = {"selector": {"app": "x", "stray": "y"}}
    assert owned_patch(actual, {"selector": {"app": "x"}}) == {"selector": {"stray": None}}


def test_defaults_inside_lists_do_not_matter() -> None:
    actual = {"ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}], "ports": []}]}
    wanted = {"ingress": [{"from": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]}
    assert owned_patch(actual, wanted) == {}
