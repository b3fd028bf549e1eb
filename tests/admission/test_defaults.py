"""Defaults, as a real Volcano fills them in (docs/semantics.md)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.admission.cases import admitted, job, pytorch_job, task, template
from tests.strategies import jobs
from vcjob.admission.review import admit

REFERENCE = [
    Path(__file__).parent.parent / "reference" / f"{name}.json"
    for name in ("guide", "guide-old", "multi", "res")
]


def spec_of(doc: dict[str, Any], **options: Any) -> dict[str, Any]:
    spec: dict[str, Any] = admitted(doc, **options).doc["spec"]
    return spec


def without_empties(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empties(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in ({}, None)}
    return [without_empties(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("file", REFERENCE, ids=lambda file: file.stem)
def test_a_job_after_admission_is_what_volcano_made_of_it(file: Path) -> None:
    reference = json.loads(file.read_text())
    (theirs,) = [item for item in reference["objects"] if item["kind"] == "Job"]
    text = json.dumps(without_empties(theirs["spec"]), sort_keys=True)
    ours = json.dumps(without_empties(spec_of(reference["job"])), sort_keys=True)
    # The API server writes every quantity as text.
    assert ours.replace('"nvidia.com/gpu": 1', '"nvidia.com/gpu": "1"') == text


def test_queue_scheduler_and_retries() -> None:
    spec = spec_of(job())
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("default", "volcano", 3)
    assert spec["tasks"][0]["maxRetry"] == 3


def test_what_is_given_stays() -> None:
    spec = spec_of(job(task(maxRetry=7), queue="q", schedulerName="s", maxRetry=5, minAvailable=1))
    assert (spec["queue"], spec["schedulerName"], spec["maxRetry"]) == ("q", "s", 5)
    assert spec["tasks"][0]["maxRetry"] == 7


@pytest.mark.parametrize("empty", ["", None])
def test_empty_names_count_as_absent(empty: str | None) -> None:
    spec = spec_of(job({**task(), "name": empty}, queue=empty, schedulerName=empty))
    assert (spec["queue"], spec["schedulerName"], spec["tasks"][0]["name"]) == (
        "default",
        "volcano",
        "default0",
    )


def test_tasks_without_names_are_named_by_their_index() -> None:
    first, second = task(), task()
    del second["name"]
    assert [each["name"] for each in spec_of(job(first, second))["tasks"]] == ["work", "default1"]


def test_improvement_19_an_explicit_max_retry_of_0_is_honoured() -> None:
    spec = spec_of(job(task(maxRetry=0), maxRetry=0))
    assert spec["maxRetry"] == 0
    assert spec["tasks"][0]["maxRetry"] == 0


@pytest.mark.parametrize("given", [None, 0])
def test_a_tasks_min_available_is_its_replicas_and_0_counts_as_absent(given: int | None) -> None:
    assert spec_of(job(task(replicas=4, minAvailable=given)))["tasks"][0]["minAvailable"] == 4


@pytest.mark.parametrize("given", [None, 0])
def test_the_jobs_min_available_is_the_sum_of_its_tasks_and_0_counts_as_absent(given: int | None) -> None:
    doc = job(task("a", 4, minAvailable=2), task("b", 3), minAvailable=given)
    assert spec_of(doc)["minAvailable"] == 5


def test_a_task_without_replicas_has_none() -> None:
    doc = task()
    del doc["replicas"]
    assert spec_of(job(doc))["tasks"][0]["replicas"] == 0


def test_min_partitions_decide_min_available() -> None:
    policy = {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}
    assert spec_of(job(task(replicas=6, partitionPolicy=policy)))["tasks"][0]["minAvailable"] == 4
    policy["minPartitions"] = 0
    assert spec_of(job(task(replicas=6, partitionPolicy=policy)))["tasks"][0]["minAvailable"] == 6


@pytest.mark.parametrize("policy", [None, ""])
def test_host_network_without_a_dns_policy_resolves_cluster_names(policy: str | None) -> None:
    doc = job(task(template=template(hostNetwork=True, dnsPolicy=policy)))
    assert spec_of(doc)["tasks"][0]["template"]["spec"]["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_a_dns_policy_that_is_given_stays() -> None:
    for fields in ({"hostNetwork": True, "dnsPolicy": "Default"}, {"hostNetwork": False}, {}):
        pod = spec_of(job(task(template=template(**fields))))["tasks"][0]["template"]["spec"]
        assert pod.get("dnsPolicy") == fields.get("dnsPolicy")


def test_pytorch_opens_svc_with_an_empty_list() -> None:
    assert list(spec_of(pytorch_job("--port=1"))["plugins"].items()) == [
        ("pytorch", ["--port=1"]),
        ("svc", []),
    ]


def test_an_svc_of_the_users_is_left_alone() -> None:
    doc = pytorch_job(plugins={"svc": ["--disable-network-policy=true"]})
    assert spec_of(doc)["plugins"]["svc"] == ["--disable-network-policy=true"]
    assert spec_of(pytorch_job(plugins={"svc": None}))["plugins"]["svc"] is None


def test_no_plugins_are_added_unless_others_require_them() -> None:
    assert "plugins" not in spec_of(job())
    assert spec_of(job(plugins={"env": []}))["plugins"] == {"env": []}


def test_the_given_document_is_left_alone() -> None:
    doc = pytorch_job(tasks=[task("master", template=template(hostNetwork=True)), {**task(), "name": ""}])
    before = copy.deepcopy(doc)
    admitted(doc)
    assert doc == before


def test_keys_keep_their_order_and_every_field_its_value() -> None:
    doc = job(schedulerName="volcano")
    doc = {
        "spec": doc["spec"],
        "metadata": {"zebra": 1, **doc["metadata"]},
        "kind": "Job",
        "apiVersion": doc["apiVersion"],
    }
    doc["spec"]["tasks"][0]["template"]["spec"]["futureField"] = {"b": 1, "a": [1, None, "x"]}
    result = admitted(doc, allow_unknown=True).doc
    assert list(result) == ["spec", "metadata", "kind", "apiVersion"]
    assert list(result["metadata"]) == ["zebra", "name"]
    assert json.dumps(result["spec"]["tasks"][0]["template"]) == json.dumps(
        doc["spec"]["tasks"][0]["template"]
    )


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(jobs())
def test_every_drawn_job_is_admitted_and_its_defaults_are_stable(doc: dict[str, Any]) -> None:
    first = admitted(doc)
    again = admit(first.doc)
    assert again.doc == first.doc
    assert again.valid


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(jobs())
def test_no_field_of_a_drawn_job_is_lost(doc: dict[str, Any]) -> None:
    assert _holds(admitted(doc).doc, doc, ())


def _holds(result: Any, given: Any, where: tuple[Any, ...]) -> bool:
    """Whether all of `given` is in `result`, but for an explicit minAvailable of 0 and plugins' nulls."""
    if isinstance(given, dict):
        return all(_holds(result.get(key), value, (*where, key)) for key, value in given.items())
    if isinstance(given, list):
        return len(given) == len(result) and all(_holds(r, g, (*where, 0)) for r, g in zip(result, given))
    return bool(result == given or (where[-1] == "minAvailable" and given == 0) or given is None)
