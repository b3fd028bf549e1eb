"""Checks of the topology and partitions of a new Job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, container, errors, job, refused, task, template

WORK = "spec.tasks[0]"


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"requests": {"cpu": "1500m"}},
        {"limits": {"cpu": "0.5"}},
        {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": 2}},
        {"requests": {"cpu": 0}},
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_topology_policy_without_integer_cpu(kind: str, resources: dict[str, Any]) -> None:
    whole = container(resources={"limits": {"cpu": "2", "memory": "2Gi"}})
    pod = template(whole)
    pod["spec"][kind] = (
        [whole, container("other", resources=resources)]
        if kind == "containers"
        else [container("other", resources=resources)]
    )
    number = 1 if kind == "containers" else 0
    refused(
        job(task(template=pod, topologyPolicy="restricted")),
        f"{WORK}.template.spec.{kind}[{number}].resources",
        "needs whole CPUs",
    )
    admitted(job(task(template=pod, topologyPolicy="none")))


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": 2}},
        {"limits": {"cpu": "4000m"}},
        {"requests": {"memory": "1Gi"}, "limits": {"cpu": 4, "memory": "1Gi"}},
        {"requests": {"cpu": None}, "limits": {"cpu": 4}},
    ],
)
def test_topology_policy_with_integer_cpu(resources: dict[str, Any]) -> None:
    admitted(job(task(template=template(container(resources=resources)), topologyPolicy="best-effort")))


def test_partition_sums_that_do_not_match() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 3}
    refused(
        job(task(replicas=5, partitionPolicy=policy)),
        f"{WORK}.partitionPolicy",
        "are 6 pods, but replicas is 5",
    )
    admitted(job(task(replicas=6, partitionPolicy=policy)))


def test_min_available_that_does_not_fit_the_partitions() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": 1}
    refused(
        job(task(replicas=6, minAvailable=4, partitionPolicy=policy)), f"{WORK}.minAvailable", "are 3 pods"
    )
    admitted(job(task(replicas=6, minAvailable=3, partitionPolicy=policy)))
    admitted(job(task(replicas=6, minAvailable=4, partitionPolicy={**policy, "minPartitions": 0})))


def test_more_partitions_wanted_than_there_are() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": 3}
    found = errors(job(task(replicas=6, partitionPolicy=policy)))
    assert f"{WORK}.partitionPolicy.minPartitions" in {problem.path for problem in found}


@pytest.mark.parametrize("missing", ["totalPartitions", "partitionSize"])
def test_a_partition_policy_without_its_numbers(missing: str) -> None:
    policy = {"totalPartitions": 1, "partitionSize": 1}
    del policy[missing]
    refused(job(task(partitionPolicy=policy)), f"{WORK}.partitionPolicy.{missing}", "is missing")


def test_highest_tier_allowed_with_highest_tier_name() -> None:
    both = {"highestTierAllowed": 0, "highestTierName": "rack"}
    refused(job(networkTopology=both), "spec.networkTopology.highestTierName", "is set twice")
    policy = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": both}
    refused(
        job(task(partitionPolicy=policy)),
        f"{WORK}.partitionPolicy.networkTopology.highestTierName",
        "is set twice",
    )
    admitted(job(networkTopology={"highestTierAllowed": 2}))
    admitted(job(networkTopology={"highestTierName": "rack", "highestTierAllowed": None}))
