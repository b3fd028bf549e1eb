"""Messages contain the phrases of Volcano and of the API server that people and tools search for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import errors, job, task
from vcjob.admission.review import admit

EVENT = {"event": "PodFailed", "action": "AbortJob"}
VOLUME = {"mountPath": "/data", "volumeClaimName": "claim"}


def policies(*each: dict[str, Any]) -> dict[str, Any]:
    return job(policies=list(each))


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        (job(task("a"), task("a")), "duplicated task name"),
        (job(minAvailable=-1), "should be greater than or equal to 0"),
        (job(maxRetry=-1), "should be greater than or equal to 0"),
        (job(task(replicas=-1)), "should be greater than or equal to 0"),
        ({**job(), "spec": {"tasks": []}}, "No task specified in job spec"),
        (job(task(replicas=1, minAvailable=2)), "'minAvailable' is greater than 'replicas' in task"),
        (
            job(task(replicas=1), minAvailable=2),
            "job 'minAvailable' should not be greater than total replicas",
        ),
        (job(task("Not_A_Label")), "should match"),
        (policies(EVENT, EVENT), "duplicate event"),
        (policies({**EVENT, "exitCode": 1}), "must not specify event and exitCode simultaneously"),
        (policies({"action": "AbortJob"}), "either event and exitCode should be specified"),
        (policies({**EVENT, "action": "Nothing"}), "invalid policy action"),
        (policies({"exitCode": 0, "action": "AbortJob"}), "0 is not a valid error code"),
        (policies(*[{"exitCode": 1, "action": "AbortJob"}] * 2), "duplicate exitCode"),
        (policies(EVENT, {**EVENT, "event": "*"}), "if there's * here, no other policy should be here"),
        (job(volumes=[{**VOLUME, "mountPath": ""}]), "should be at least 1 chars long"),
        (job(volumes=[VOLUME, VOLUME]), "duplicated mountPath"),
        (job(volumes=[{"mountPath": "/data"}]), "either VolumeClaim or VolumeClaimName must be specified"),
    ],
)
def test_a_message_contains_the_phrase_of_volcano(doc: dict[str, Any], words: str) -> None:
    assert any(words in f"{problem.message} {problem.hint}" for problem in errors(doc))


@pytest.mark.parametrize(
    ("doc", "words"),
    [
        (job(task("a"), task("b")), "job updates may not add or remove tasks"),
        (job(task("a"), queue="another"), "job updates may not change fields other than"),
    ],
)
def test_the_message_of_a_refused_update_contains_the_phrase_of_volcano(
    doc: dict[str, Any], words: str
) -> None:
    assert any(words in problem.message for problem in admit(doc, old=job(task("a"))).problems)
