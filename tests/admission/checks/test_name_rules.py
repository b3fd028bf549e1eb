"""Checks of the names of a new Job and of its queue."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, errors, job, refused, task

WORK = "spec.tasks[0]"


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": None}])
def test_a_job_without_a_name(metadata: dict[str, Any]) -> None:
    refused({**job(), "metadata": metadata}, "metadata.name", "no name")


def test_a_generated_name_is_for_clusters_only() -> None:
    doc = {**job(), "metadata": {"generateName": "j-"}}
    assert "write `name`" in (refused(doc, "metadata.generateName", "on a cluster only").hint or "")
    admitted(doc, backend="cluster")
    doc["metadata"]["generateName"] = "J-"
    refused(doc, "metadata.generateName", "lower-case", backend="cluster")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.b", "contains dots"),
        ("1a", "must begin with a letter"),
        ("A", "lower-case"),
        ("a" * 60, "has 60 characters; at most 59"),
        ("a_b", "lower-case"),
    ],
)
@pytest.mark.parametrize("plugins", [{"svc": []}, {"pytorch": ["--master=m"]}])
def test_a_job_name_that_is_not_a_service_name(name: str, words: str, plugins: dict[str, Any]) -> None:
    found = errors(job(task("m", replicas=0), name=name, plugins=plugins))
    assert [problem.path for problem in found if words in problem.message] == ["metadata.name"]


def test_the_longest_job_name() -> None:
    admitted(job(task("m"), name="a" * 59, plugins={"svc": []}))


def test_without_a_service_a_name_may_have_dots_and_begin_with_a_digit() -> None:
    admitted(job(name="1.a", plugins={"env": []}))
    refused(job(name="A.b"), "metadata.name", "lower-case")
    refused(job(name="a." * 31 + "aa"), "metadata.name", "64 characters")


def test_an_invalid_namespace() -> None:
    doc = job()
    doc["metadata"]["namespace"] = "A.b"
    refused(doc, "metadata.namespace", "lower-case")


@pytest.mark.parametrize(
    ("name", "words"),
    [("Work", "lower-case"), ("a.b", "lower-case"), ("-a", "begin and end"), ("a" * 64, "64 characters")],
)
def test_a_task_name_that_is_not_a_dns_label(name: str, words: str) -> None:
    refused(job(task(name)), f"{WORK}.name", words)


def test_pod_names_are_measured_at_the_largest_index() -> None:
    name = "a" * 30 + "-" + "b" * 27  # with `-w-` and one digit: 62
    admitted(job(task("w", 10), name=name))
    admitted(job(task("w", 100), name=name))
    problem = refused(job(task("w", 101), name=name), f"{WORK}.name", "would have 64 characters")
    assert problem.hint == "shorten the name of the Job or of the task by 1 characters"


def test_a_queue_name_that_is_not_a_label() -> None:
    refused(job(queue="q" * 64), "spec.queue", "more than 63 characters")
    admitted(job(queue="q" * 63))


QUEUES: dict[str, dict[str, Any]] = {
    "root": {"status": {"state": "Open"}},
    "default": {"status": {"state": "Open"}},
    "closed": {"status": {"state": "Closed"}},
    "new": {},
    "parent": {"status": {"state": "Open"}},
    "child": {"spec": {"parent": "parent"}, "status": {"state": "Open"}},
}


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ("defualt", "no queue named"),
        ("closed", "not open (Closed)"),
        ("new", "not open (no state yet)"),
        ("root", "root queue"),
        ("parent", "has child queues"),
    ],
)
def test_unknown_closed_root_or_parent_queue(queue: str, words: str) -> None:
    problem = refused(job(queue=queue), "spec.queue", words, queues=QUEUES)
    assert problem.hint
    assert queue != "defualt" or problem.hint == "did you mean `default`?"
    assert queue != "parent" or "child" in problem.hint


def test_an_open_leaf_queue_is_taken() -> None:
    admitted(job(queue="child"), queues=QUEUES)
    admitted(job(), queues=QUEUES)


def test_queues_are_judged_only_where_there_are_some() -> None:
    admitted(job(queue="anything"))
    assert "create a queue" in (refused(job(), "spec.queue", "no queue", queues={}).hint or "")
    assert "closed, default" in (
        refused(job(queue="zzz"), "spec.queue", "no queue", queues=QUEUES).hint or ""
    )
