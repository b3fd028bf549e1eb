"""The resources of a pod, counted as Kubernetes counts them."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.plan.resources import group_names, pod_limits, pod_requests, render


def of(
    requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}, **fields}


def requests(**spec: Any) -> dict[str, str]:
    return render(pod_requests(spec))


def limits(**spec: Any) -> dict[str, str]:
    return render(pod_limits(spec))


def test_containers_add_up() -> None:
    spec = {"containers": [of({"cpu": "500m", "memory": "1Gi"}), of({"cpu": 1}), {"name": "none"}]}
    assert requests(**spec) == {"cpu": "1500m", "memory": "1Gi"}
    assert limits(**spec) == {}


def test_improvement_25_a_limit_without_a_request_counts_as_the_request() -> None:
    spec = {"containers": [of({"cpu": "1"}, {"cpu": "2", "nvidia.com/gpu": 4})]}
    assert requests(**spec) == {"cpu": "1", "nvidia.com/gpu": "4"}
    assert limits(**spec) == {"cpu": "2", "nvidia.com/gpu": "4"}


@pytest.mark.parametrize(("first", "expected"), [("3", "3"), ("1", "2")])
def test_of_init_containers_only_the_largest_matters(first: str, expected: str) -> None:
    spec = {"containers": [of({"cpu": "2"})], "initContainers": [of({"cpu": first}), of({"cpu": "500m"})]}
    assert requests(**spec) == {"cpu": expected}


def test_a_resource_that_only_an_init_container_has_counts() -> None:
    assert requests(containers=[of()], initContainers=[of({"memory": "1Gi"})]) == {"memory": "1Gi"}


def test_an_init_container_that_stays_adds_to_all_that_follow() -> None:
    side = of({"cpu": "1"}, restartPolicy="Always")
    assert requests(containers=[of({"cpu": "2"})], initContainers=[side]) == {"cpu": "3"}
    assert requests(containers=[of({"cpu": "2"})], initContainers=[side, of({"cpu": "4"})]) == {"cpu": "5"}
    assert requests(containers=[of({"cpu": "2"})], initContainers=[of({"cpu": "4"}), side]) == {"cpu": "4"}
    assert requests(containers=[of()], initContainers=[side, side, of({"cpu": "1"})]) == {"cpu": "3"}


def test_limits_are_counted_in_the_same_way() -> None:
    side = of(None, {"cpu": "1"}, restartPolicy="Always")
    assert limits(containers=[of(None, {"cpu": "2"})], initContainers=[side, of(None, {"cpu": "4"})]) == {
        "cpu": "5"
    }


def test_resources_of_the_whole_pod_take_the_place_of_sums() -> None:
    whole = {
        "requests": {"cpu": "8", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "9"},
        "limits": {"cpu": "10", "memory": "4Gi"},
    }
    spec = {"containers": [of({"cpu": "1", "nvidia.com/gpu": "1"})], "resources": whole}
    assert requests(**spec) == {"cpu": "8", "memory": "4Gi", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "1"}
    assert limits(**spec) == {"cpu": "10", "memory": "4Gi"}


def test_a_limit_of_the_whole_pod_gives_way_to_the_containers_requests() -> None:
    spec = {
        "containers": [of({"memory": "1Gi"})],
        "resources": {"limits": {"memory": "4Gi", "example.com/x": "1"}},
    }
    assert requests(**spec) == {"memory": "1Gi"}


def test_overhead_is_added_to_requests_and_to_limits_that_are_there() -> None:
    spec = {"containers": [of({"cpu": "1"}, {"cpu": "2"})], "overhead": {"cpu": "250m", "memory": "64Mi"}}
    assert requests(**spec) == {"cpu": "1250m", "memory": "64Mi"}
    assert limits(**spec) == {"cpu": "2250m"}


def test_a_null_amount_is_absent() -> None:
    assert requests(containers=[of({"cpu": None, "memory": "1Mi"})], overhead=None) == {"memory": "1Mi"}


def test_a_group_names_resources_as_quotas_and_queues_do() -> None:
    spec = {
        "containers": [
            of(
                {"cpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "2Mi"},
                {
                    "cpu": "2",
                    "memory": "3Gi",
                    "nvidia.com/gpu": "1",
                    "ephemeral-storage": "2Gi",
                    "hugepages-2Mi": "2Mi",
                },
            )
        ]
    }
    assert render(group_names(pod_requests(spec), pod_limits(spec))) == {
        "count/pods": "1",
        "cpu": "1",
        "ephemeral-storage": "1Gi",
        "hugepages-2Mi": "2Mi",
        "limits.cpu": "2",
        "limits.ephemeral-storage": "2Gi",
        "limits.memory": "3Gi",
        "memory": "3Gi",
        "nvidia.com/gpu": "1",
        "pods": "1",
        "requests.cpu": "1",
        "requests.ephemeral-storage": "1Gi",
        "requests.hugepages-2Mi": "2Mi",
        "requests.memory": "3Gi",
        "requests.nvidia.com/gpu": "1",
    }
