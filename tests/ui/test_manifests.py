"""What the defaults and the plugins add to a Job, as a comparison."""

from __future__ import annotations

import pytest

from vcjob.errors import UserError
from vcjob.ui import manifests


def test_only_what_was_added_or_changed_is_marked_whatever_the_order_of_keys() -> None:
    before = {"spec": {"b": 1, "a": [1]}}
    after = {"spec": {"a": [1], "b": 2, "queue": "default"}}
    marked = [line for line in manifests.compare(before, after) if line[0] in "+-"]
    assert marked == ["-  b: 1", "+  b: 2", "+  queue: default"]
    assert manifests.compare(before, before) == []


def test_a_manifest_that_is_too_long_is_not_compared() -> None:
    long = {str(number): number for number in range(manifests.MAX_COMPARED_LINES + 1)}
    with pytest.raises(UserError, match="more than 5000 lines"):
        manifests.compare({}, long)
