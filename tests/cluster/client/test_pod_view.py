"""Pods as the command line shows them, whatever a user wrote into them."""

from __future__ import annotations

import msgspec
import pytest

from vcjob.cluster.client.pod_view import PodView


@pytest.mark.parametrize("number", ["²", "-1", "one", "9" * 5000])
def test_annotations_and_ranks_that_are_no_numbers_are_shown_as_none(number: str) -> None:
    marks = {"volcano.sh/task-index": number, "vcjob.io/attempt": number, "volcano.sh/job-version": number}
    variables = [{"name": "RANK", "value": number}]
    document = {"metadata": {"annotations": marks}, "spec": {"containers": [{"env": variables}]}}
    pod = msgspec.convert(document, PodView)
    assert (pod.index, pod.attempt, pod.version, pod.rank) == (0, 0, 0, None)
