"""What the webhook answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.webhook.reviews import guide, long_job, operations, patched, response, review
from vcjob.cluster.webhook.review import LONGEST_WARNING, MOST_PROBLEMS, Malformed, Purpose, answer


def ask(body: bytes, purpose: Purpose = "validate", **options: Any) -> dict[str, Any]:
    return response(answer(body, purpose, **options))


def test_the_guides_job_gets_its_defaults() -> None:
    job = guide()
    found = ask(review(job), "mutate")
    spec = patched(job, found)["spec"]
    assert found["allowed"]
    assert (spec["queue"], spec["maxRetry"], spec["minAvailable"]) == (
        "default",
        3,
        job["spec"]["minAvailable"],
    )
    assert [task["minAvailable"] for task in spec["tasks"]] == [1, 2]
    assert spec["plugins"]["svc"] == []


def test_defaults_are_given_once_only() -> None:
    job = patched(guide(), ask(review(guide()), "mutate"))
    assert "patch" not in ask(review(job), "mutate")


def test_only_the_spec_is_patched() -> None:
    job = guide()
    job["metadata"].pop("namespace", None)
    assert all(operation["path"].startswith("/spec/") for operation in operations(ask(review(job), "mutate")))


@pytest.mark.parametrize("purpose", ["mutate", "validate"])
def test_every_problem_is_reported_with_its_path(purpose: Purpose) -> None:
    job = guide()
    job["spec"]["plugins"]["pytorch"] = ["--port=abc"]
    job["spec"]["tasks"][1]["replicas"] = -1
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["imge"] = "x"
    found = ask(review(job), purpose)
    assert not found["allowed"]
    assert found["status"]["code"] == 422
    for words in (
        "spec.plugins.pytorch[0]",
        "spec.tasks[1].replicas",
        "spec.tasks[0].template.spec.containers[0].imge",
        "did you mean `image`?",
    ):
        assert words in found["status"]["message"]
    causes = {cause["field"]: cause["message"] for cause in found["status"]["details"]["causes"]}
    assert "spec.plugins.pytorch[0]" in causes
    assert "patch" not in found


def test_a_hopeless_job_gets_a_bounded_answer() -> None:
    job = guide()
    job["spec"]["tasks"] = [{"name": f"task-{n}", "replicas": -1, "nme": 1} for n in range(1000)]
    status = ask(review(job))["status"]
    assert len(status["details"]["causes"]) == MOST_PROBLEMS
    assert "more" in status["message"].splitlines()[-1]
    assert len(json.dumps(status)) < 100_000


def test_warnings_are_admission_warnings() -> None:
    job = guide()
    job["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["env"] = [{"name": "RANK", "value": "7"}]
    found = ask(review(job))
    assert found["allowed"]
    assert any("RANK" in warning for warning in found["warnings"])
    assert all(len(warning) <= LONGEST_WARNING for warning in found["warnings"])


def test_the_name_of_a_nameless_job_is_the_clusters_to_make() -> None:
    job = guide()
    job["metadata"] = {"generateName": "train-"}
    assert ask(review(job))["allowed"]


def test_a_job_may_grow_but_not_change() -> None:
    old = patched(guide(), ask(review(guide()), "mutate"))
    grown = json.loads(json.dumps(old))
    grown["spec"]["tasks"][1]["replicas"] = 5
    assert ask(review(grown, "UPDATE", old))["allowed"]
    changed = json.loads(json.dumps(old))
    changed["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["image"] = "other"
    found = ask(review(changed, "UPDATE", old))
    assert "spec.tasks[0].template.spec.containers[0].image" in found["status"]["message"]


def test_the_same_file_again_is_no_change() -> None:
    stored = patched(guide(), ask(review(guide()), "mutate"))
    assert ask(review(guide(), "UPDATE", stored))["allowed"]


@pytest.mark.parametrize(
    "change", [{"operation": "DELETE"}, {"subResource": "status"}, {"operation": "CONNECT"}]
)
def test_what_is_not_about_the_spec_passes(change: dict[str, str]) -> None:
    assert ask(review(None if "operation" in change else {"spec": 1}, **change))["allowed"]


def test_a_dry_run_gets_the_same_answer() -> None:
    assert answer(review(guide(), dryRun=True), "mutate") == answer(review(guide()), "mutate")


def test_queues_are_checked_where_there_are_any() -> None:
    job = guide()
    job["spec"]["queue"] = "closed"
    assert ask(review(job), queues={})["allowed"]
    found = ask(review(job), queues={"closed": {"status": {"state": "Closed"}}})
    assert "spec.queue" in found["status"]["message"]


def test_a_job_of_a_thousand_tasks_is_fine() -> None:
    assert ask(review(long_job(tasks=1000, containers=1)), "mutate")["allowed"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not an AdmissionReview"),
        (b"{", "not an AdmissionReview"),
        (b"\xff\xfe", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b'{"apiVersion":"v1","kind":"Pod","request":{"uid":"1","kind":{},"operation":"CREATE"}}', "Pod"),
        (review(guide(), kind={"group": "batch", "version": "v1", "kind": "Job"}), "batch"),
        (review(None), "no object"),
        (review(guide(), "UPDATE"), "no object"),
        (review("text"), "not an AdmissionReview"),
    ],
)
def test_what_is_no_review_of_a_job_is_refused_with_the_reason(body: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        answer(body, "validate")


@pytest.mark.parametrize("depth", [500, 100_000])
def test_a_deep_document_is_answered_too(depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    body = review(guide()).replace(b'"minAvailable"', b'"x":' + deep + b',"minAvailable"', 1)
    assert "nested deeper than 100 levels" in ask(body)["status"]["message"]


_anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        document.items()
        if isinstance(document, dict)
        else enumerate(document)
        if isinstance(document, list)
        else ()
    )
    for key, value in items:
        found += _places(value, (*path, key))
    return found


@given(st.data())
def test_any_review_gets_an_answer_or_a_reason(data: st.DataObject) -> None:
    """A whole review with anything at one or two places of it."""
    document = json.loads(review(guide(), data.draw(st.sampled_from(["CREATE", "UPDATE"])), guide()))
    for _ in range(data.draw(st.integers(1, 2))):
        *steps, last = data.draw(st.sampled_from(_places(document)))
        place = document
        for step in steps:
            place = place[step]
        place[last] = data.draw(_anything)
    body = json.dumps(document).encode()
    for purpose in ("mutate", "validate"):
        try:
            said = json.loads(answer(body, purpose))["response"]
        except Malformed:
            continue
        assert said["allowed"] or said["status"]["message"]


@given(st.binary(max_size=200) | _anything.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_get_a_reason(body: bytes) -> None:
    with pytest.raises(Malformed):
        answer(body, "validate")
