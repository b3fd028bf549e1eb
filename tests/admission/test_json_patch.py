"""The JSON patch of the webhook turns the given Job into the admitted one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admission.cases import admitted, pytorch_job
from tests.strategies import jobs
from vcjob.admission.patch import json_patch

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "a", "~", "/", "~1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b/c", "~d", "~1", ""]), inner, max_size=3)
    ),
    max_leaves=10,
)


def applied(document: Any, patch: list[dict[str, Any]]) -> Any:
    """RFC 6902, as far as admission uses it."""
    root = {"": copy.deepcopy(document)}
    for operation in patch:
        steps = [
            "",
            *(step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]),
        ]
        node: Any = root
        for step in steps[:-1]:
            node = node[int(step)] if isinstance(node, list) else node[step]
        last: Any = int(steps[-1]) if isinstance(node, list) else steps[-1]
        assert operation["op"] == "add" or isinstance(node, list) or last in node
        if operation["op"] == "remove":
            del node[last]
        else:
            node[last] = copy.deepcopy(operation["value"])
    return root[""]


@given(VALUES, VALUES)
def test_a_patch_makes_one_of_the_other(before: Any, after: Any) -> None:
    result = applied(before, json_patch(before, after))
    assert result == after
    assert repr(result) == repr(after) or isinstance(after, dict | list)


@given(VALUES)
def test_no_difference_is_no_operation(value: Any) -> None:
    assert json_patch(value, copy.deepcopy(value)) == []


def test_true_is_not_1() -> None:
    assert json_patch({"a": 1}, {"a": True}) == [{"op": "replace", "path": "/a", "value": True}]


def test_keys_are_escaped() -> None:
    assert json_patch({}, {"a/b~c": 1}) == [{"op": "add", "path": "/a~1b~0c", "value": 1}]


def test_what_is_gone_is_removed() -> None:
    assert json_patch({"a": 1, "b": {"c": 1}}, {"b": {}}) == [
        {"op": "remove", "path": "/a"},
        {"op": "remove", "path": "/b/c"},
    ]


def test_lists_of_another_length_are_replaced() -> None:
    assert json_patch([1], [1, 2]) == [{"op": "replace", "path": "", "value": [1, 2]}]


def test_defaults_are_added_where_they_belong() -> None:
    doc = pytorch_job()
    patch = json_patch(doc, admitted(doc).doc)
    assert {"op": "add", "path": "/spec/queue", "value": "default"} in patch
    assert {"op": "add", "path": "/spec/plugins/svc", "value": []} in patch
    assert {"op": "add", "path": "/spec/tasks/1/minAvailable", "value": 2} in patch
    assert {operation["op"] for operation in patch} == {"add"}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(jobs())
def test_the_patch_of_a_drawn_job_gives_the_admitted_one(doc: dict[str, Any]) -> None:
    after = admitted(doc).doc
    assert applied(doc, json_patch(doc, after)) == after


@pytest.mark.parametrize("value", [None, 0, "", [], {}])
def test_empty_values_are_values(value: Any) -> None:
    assert json_patch({}, {"a": value}) == [{"op": "add", "path": "/a", "value": value}]
