"""When an object that another manager owns already has what an installation wants."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.cluster.install.conflicts import is_contained


@pytest.mark.parametrize(
    ("wanted", "found", "contained"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"globalDefault": False}, {}, True),
        ({"globalDefault": True}, {}, False),
        ({"rules": []}, {"rules": None}, True),
        ({"hooks": [{"name": "x"}]}, {"hooks": [{"name": "x", "timeoutSeconds": 5}]}, True),
        ({"hooks": [{"name": "x"}]}, {"hooks": [{"name": "x"}, {"name": "y"}]}, False),
        ({"rules": [{"verbs": ["get"]}]}, {"rules": [{"verbs": ["get", "list"]}]}, False),
    ],
)
def test_equal_values_are_no_conflict(wanted: Any, found: Any, contained: bool) -> None:
    assert is_contained(wanted, found) is contained
