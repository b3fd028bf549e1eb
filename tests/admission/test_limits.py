"""The hard limits of a Job, each with its number in the message."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.admission.cases import admitted, container, errors, job, refused, task, template
from tests.admission.expensive_jobs import bad_label_keys, unknown_flags
from vcjob.admission import limits, review
from vcjob.admission.limits import check_limits
from vcjob.admission.review import admit
from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Eviction, Status, TaskMemory
from vcjob.plugins import registry
from vcjob.spec.document import Document


def tasks(count: int) -> list[dict[str, Any]]:
    return [task(f"t{number}") for number in range(count)]


def dependencies(count: int) -> dict[str, Any]:
    return job(task("a"), task("b", dependsOn={"name": ["a"] * count}))


def policies(count: int) -> list[dict[str, Any]]:
    return [{"exitCode": code, "action": "AbortJob"} for code in range(1, count + 1)]


def containers(count: int) -> dict[str, Any]:
    made = [container(f"c{number}") for number in range(count)]
    return template(*made[:-1], initContainers=made[-1:])


def volumes(count: int) -> list[dict[str, Any]]:
    return [{"mountPath": f"/m{number}", "volumeClaimName": "claim"} for number in range(count)]


def large(size: int) -> dict[str, Any]:
    return job(task(template=template(container(env=[{"name": "A", "value": "x" * size}]))))


@pytest.mark.parametrize(
    ("largest", "too_large", "path", "message"),
    [
        (job(*tasks(2_000)), job(*tasks(2_001)), "spec.tasks", "the Job has 2001 tasks; at most 2000 are allowed"),
        (dependencies(10_000), dependencies(10_001), "spec.tasks", "10001 names in dependsOn; at most 10000"),
        (job(task(replicas=150_000)), job(task(replicas=150_001)), "spec.tasks", "150001 pods; at most 150000"),
        (job(policies=policies(300)), job(policies=policies(301)), "spec.policies", "301 policies; at most 300"),
        (job(task(policies=policies(300))), job(task(policies=policies(301))), "spec.tasks[0].policies", "at most 300"),
        (job(volumes=volumes(100)), job(volumes=volumes(101)), "spec.volumes", "101 volumes; at most 100"),
        (job(task(template=containers(100))), job(task(template=containers(101))), "spec.tasks[0].template.spec",
         "101 containers; at most 100"),
        (large(1_000_000), large(1_048_576), "", "bytes as JSON; at most 1048576"),
    ],
)  # fmt: skip
def test_a_job_above_a_limit_is_refused_with_the_number(
    largest: dict[str, Any], too_large: dict[str, Any], path: str, message: str
) -> None:
    admitted(largest)
    assert check_limits(largest) == []
    refused(too_large, path, message)
    assert [problem.path for problem in check_limits(too_large)] == [path]


def test_a_duration_is_at_most_sixty_four_characters_long() -> None:
    """Each was read again at every event of every pod: 300 kB of `1ns1ns...` held the controller for seconds."""
    for text in ("1ns" * 21, "0" * 63 + "s"):
        policy = {"event": "PodPending", "action": "AbortJob", "timeout": text}
        admitted(job(policies=[policy], runningEstimate=text))
    for text in ("1ns" * 22, "1ns" * 100_000):
        message = f"the value has {len(text)} characters; at most 64 are allowed"
        policy = {"event": "*", "action": "RestartJob", "timeout": text}
        refused(job(policies=[policy]), "spec.policies[0].timeout", message)
        refused(job(task(policies=[policy])), "spec.tasks[0].policies[0].timeout", message)
        refused(job(runningEstimate=text), "spec.runningEstimate", message)


@pytest.mark.parametrize(("size", "allowed"), [(100, True), (101, False)])
def test_the_number_of_arguments_and_plugins_is_limited(size: int, allowed: bool) -> None:
    assert (check_limits(unknown_flags(size)) == []) == allowed
    assert (check_limits(job(plugins={f"p{i}": [] for i in range(size // 2)})) == []) or not allowed


def test_no_other_check_runs_above_a_limit() -> None:
    (problem,) = errors(job(*[task("same")] * 2_001))
    assert "2001 tasks" in problem.message


def test_the_status_and_managed_fields_do_not_count() -> None:
    doc = job()
    doc["status"] = {"message": "x" * limits.MAX_BYTES}
    doc["metadata"]["managedFields"] = [{"manager": "x" * limits.MAX_BYTES}]
    assert check_limits(doc) == []


@pytest.mark.parametrize(
    "doc",
    [
        {},
        {"spec": 5},
        {"spec": {"tasks": 5, "policies": "x", "volumes": {}, "plugins": [1]}},
        {"spec": {"tasks": [5, None, {"replicas": "many", "dependsOn": [], "template": 1, "policies": 1}]}},
        {"metadata": [], "spec": {"tasks": [{"replicas": True, "dependsOn": {"name": "a"}}]}},
    ],
)
def test_any_value_in_any_place_is_accepted(doc: dict[str, Any]) -> None:
    assert check_limits(doc) == []


def test_nesting_without_end_is_refused() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    (problem,) = check_limits({"spec": nested})
    assert "nested deeper than 100 levels" in problem.message


@pytest.mark.parametrize(("levels", "allowed"), [(98, True), (99, False)])
def test_the_limit_of_nesting_is_that_of_a_file(levels: int, allowed: bool) -> None:
    nested: Any = {}
    for _ in range(levels):
        nested = {"a": nested}
    doc = {"spec": nested}
    assert (not check_limits(doc)) == allowed == (not Document.of(doc).problems)


def test_an_update_may_not_cross_a_limit() -> None:
    small, large_job = job(task(replicas=10)), job(task(replicas=2_000_000))
    assert [p.message for p in admit(large_job, old=small).problems if "2000000 pods" in p.message]
    assert admit(small, old=large_job).valid


def test_a_stored_job_above_a_limit_can_still_be_changed_in_other_ways() -> None:
    stored = job(*tasks(2_001))
    changed = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    assert admit(changed, old=stored).valid
    removed = {**stored, "metadata": {**stored["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert admit(removed, old=job()).valid


def test_more_variables_than_a_pod_can_hold_are_refused() -> None:
    many = [task(f"t{number}") for number in range(1_999)]
    many.append(task("last", template=template(*(container(f"c{number}") for number in range(4)))))
    problem = refused(job(*many, plugins={"svc": []}), "spec.tasks[1999].template.spec", "16000 variables")
    assert "--inject-hosts-env=false" in (problem.hint or "")
    admitted(job(*many, plugins={"svc": ["--inject-hosts-env=false"]}))


def test_as_many_variables_as_the_limit_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    doc = job(task("a"), task("b"), plugins={"svc": []})  # four host variables in one container
    monkeypatch.setattr(registry, "MAX_VARIABLES", 4)
    admitted(doc)
    monkeypatch.setattr(registry, "MAX_VARIABLES", 3)
    assert len(errors(doc)) == 2


def test_the_plugins_are_checked_up_to_the_limit_of_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "MAX_REPLICAS", 3)
    doc = job(task(replicas=3), plugins={"svc": ["--unknown"]})
    refused(doc, "spec.plugins.svc[0]", "there is no argument")


def test_where_too_much_is_wrong_the_answer_says_that_it_is_not_complete() -> None:
    problems = admit(bad_label_keys(10_000)).problems
    assert [problem.path for problem in problems] == ["metadata.labels.-0", ""]
    assert "was not checked" in problems[-1].message


def _named(count: int, name: int, size: int) -> dict[str, Any]:
    """Tasks with names of this length, and a container argument of this size."""
    made = [task(f"t{number:04}".ljust(name, "x")) for number in range(count)]
    for one in made:
        one["template"]["spec"]["containers"][0]["args"] = ["x" * size]
    return job(*made)


def test_a_job_whose_status_would_not_fit_into_etcd_next_to_it_is_refused() -> None:
    """Two thousand tasks with long names had a status of 0.8 MB next to a spec of 1 MB, and were never written again."""
    refused(_named(2_000, 55, 300), "", "the Job and its status would have about")
    assert check_limits(_named(2_000, 55, 100)) == []
    assert check_limits(_named(2_000, 8, 200)) == []


def test_a_job_counts_the_bytes_that_its_status_needs_for_its_pods() -> None:
    """With 150,000 pods, 400 KB of spec fit next to the status and 700 KB do not."""
    for size, fits in ((400_000, True), (700_000, False)):
        document = large(size)
        document["spec"]["tasks"][0]["replicas"] = 150_000
        assert (check_limits(document) == []) is fits
        document["spec"]["tasks"][0]["replicas"] = 1_000
        assert check_limits(document) == []


def test_a_status_at_the_limit_fits_into_etcd() -> None:
    """At all limits together: each task has its own state, attempt, evicted pod and message."""
    document = _named(2_000, 55, 100)
    every = IndexSet.span(0, 1)
    tasks = {
        one["name"]: TaskMemory(
            attempts=Attempts({9: every}),
            seen=every,
            begun=every,
            evictions=(Eviction(1_700_000_000.123, every),),
        )
        for one in document["spec"]["tasks"]
    }
    counts = {name: {"Running": 1} for name in tasks}
    status = len(msgspec.json.encode(Status(tasks=tasks, task_counts=counts).to_kube()))
    estimated = sum(map(limits._status_bytes, document["spec"]["tasks"]))
    assert status <= estimated, (status, estimated)
    assert limits.MAX_STORED + 64 * 1024 <= 1536 * 1024
