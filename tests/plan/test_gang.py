"""PodGroups of Volcano and of the coscheduling plugin, and Jobs without a gang."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plan.jobs import UID, container, job, of_kind, task
from vcjob.plan.gang import GANGS, GangName
from vcjob.plan.plan import Plan
from vcjob.spec.job import Job


def group(given: Job, gang: GangName = "volcano", **options: Any) -> dict[str, Any]:
    [found] = of_kind(Plan(given, gang=gang).objects(**options), "PodGroup")
    return found


def asking(**requests: str) -> dict[str, Any]:
    return {"containers": [container(resources={"requests": requests})]}


def test_volcanos_pod_group() -> None:
    given = job(
        task("master", spec=asking(cpu="500m")),
        task("worker", 2, spec=asking(cpu="2", memory="1Gi")),
        metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}},
        queue="gold",
        minAvailable=3,
        priorityClassName="high",
        networkTopology={"mode": "hard", "highestTierAllowed": 2},
    )
    assert group(given) == {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": f"train-{UID}",
            "namespace": "team",
            "labels": {"team": "a"},
            "annotations": {"note": "b"},
            "ownerReferences": Plan(given).pod("master", 0)["metadata"]["ownerReferences"],
        },
        "spec": {
            "minMember": 3,
            "minTaskMember": {"master": 1, "worker": 2},
            "queue": "gold",
            "minResources": {
                "count/pods": "3",
                "cpu": "4500m",
                "memory": "2Gi",
                "pods": "3",
                "requests.cpu": "4500m",
                "requests.memory": "2Gi",
            },
            "priorityClassName": "high",
            "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
        },
    }


def test_what_the_job_does_not_say_is_not_in_the_pod_group() -> None:
    found = group(job(task("worker")))
    assert set(found["metadata"]) == {"name", "namespace", "ownerReferences"}
    assert set(found["spec"]) == {"minMember", "minTaskMember", "queue", "minResources"}


def test_kubectls_record_of_the_job_does_not_travel() -> None:
    annotations = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "1"}
    found = group(job(task("worker"), metadata={"annotations": annotations}))
    assert found["metadata"]["annotations"] == {"kept": "1"}


def test_a_partitioned_task_is_a_sub_group() -> None:
    policy = {
        "totalPartitions": 2,
        "partitionSize": 2,
        "minPartitions": 1,
        "networkTopology": {"mode": "soft", "highestTierName": "rack"},
    }
    bare = {"totalPartitions": 1, "partitionSize": 1}
    given = job(task("a", 4, partitionPolicy=policy), task("b"), task("c", partitionPolicy=bare))
    assert group(given)["spec"]["subGroupPolicy"] == [
        {
            "name": "a",
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": 2,
            "minSubGroups": 1,
            "networkTopology": {"mode": "soft", "highestTierName": "rack"},
        },
        {
            "name": "c",
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "c"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": 1,
            "minSubGroups": 0,
        },
    ]


def test_coschedulings_pod_group() -> None:
    given = job(task("worker", 2, spec=asking(cpu="2")), minAvailable=2)
    name = group(given, "coscheduling")["metadata"]["name"]
    assert group(given, "coscheduling") == {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "team",
            "ownerReferences": Plan(given).pod("worker", 0)["metadata"]["ownerReferences"],
        },
        "spec": {"minMember": 2, "minResources": {"cpu": "4"}},
    }
    pod = Plan(given, gang="coscheduling").pod("worker", 0)
    assert pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == name
    assert "scheduling.k8s.io/group-name" not in pod["metadata"]["annotations"]


def test_coscheduling_without_any_request_names_no_resources() -> None:
    assert group(job(task("worker")), "coscheduling")["spec"] == {"minMember": 1}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a" * 26, f"{'a' * 26}-{UID}"),
        ("a" * 27, f"{'a' * 27}-86d00d422db1"),
        ("a" * 49 + "-" + "b" * 9, f"{'a' * 49}-86d00d422db1"),
    ],
)
def test_coschedulings_group_name_fits_into_a_label(name: str, expected: str) -> None:
    found = group(job(task("worker"), metadata={"name": name}), "coscheduling")["metadata"]["name"]
    assert found == expected
    assert len(found) <= 63


def test_without_a_gang_there_is_no_group() -> None:
    plan = Plan(job(task("worker")), gang="none")
    assert of_kind(plan.objects(), "PodGroup") == []
    metadata = plan.pod("worker", 0)["metadata"]
    assert "scheduling.k8s.io/group-name" not in metadata["annotations"]
    assert "scheduling.x-k8s.io/pod-group" not in metadata["labels"]


@pytest.mark.parametrize(
    ("gang", "asked", "expected"),
    [
        ("volcano", "volcano", "volcano"),
        ("volcano", None, "volcano"),
        ("volcano", "other", "other"),
        ("none", "volcano", None),
        ("none", None, None),
        ("none", "other", "other"),
        ("coscheduling", "volcano", None),
        ("coscheduling", "other", "other"),
    ],
)
def test_volcanos_scheduler_is_asked_for_only_where_it_serves(
    gang: GangName, asked: str | None, expected: str | None
) -> None:
    plan = Plan(
        job(task("worker"), task("own", spec={"schedulerName": "volcano"}), schedulerName=asked), gang=gang
    )
    assert plan.pod("worker", 0)["spec"].get("schedulerName") == expected
    assert plan.pod("own", 0)["spec"]["schedulerName"] == "volcano"


def test_another_scheduler_can_stand_in_for_volcanos() -> None:
    plan = Plan(job(task("worker")), gang="coscheduling", scheduler="scheduler-plugins")
    assert plan.pod("worker", 0)["spec"]["schedulerName"] == "scheduler-plugins"


def test_only_the_gangs_own_parts_depend_on_the_gang() -> None:
    given = job(task("master"), task("worker", 2), plugins={"pytorch": []})
    stripped = []
    for gang in GANGS:
        plan = Plan(given, gang=gang)
        pod = plan.pod("worker", 1)
        pod["metadata"]["annotations"].pop("scheduling.k8s.io/group-name", None)
        pod["metadata"]["labels"].pop("scheduling.x-k8s.io/pod-group", None)
        pod["spec"].pop("schedulerName", None)
        stripped.append((pod, [obj for obj in plan.objects() if obj["kind"] != "PodGroup"]))
    assert stripped[0] == stripped[1] == stripped[2]


def waiting(*names: str) -> dict[str, Any]:
    return {"dependsOn": {"name": list(names)}}


@pytest.mark.parametrize(
    ("ready", "members", "minimum"),
    [
        (None, {"a": 2}, 2),
        (["a"], {"a": 2}, 2),
        (["a", "b"], {"a": 2, "b": 3}, 5),
        (["a", "b", "c"], {"a": 2, "b": 3, "c": 1}, 6),
    ],
)
def test_improvement_27_only_tasks_whose_dependencies_are_met_count_as_members(
    ready: list[str] | None, members: dict[str, int], minimum: int
) -> None:
    given = job(task("a", 2), task("b", 3, **waiting("a")), task("c", 1, **waiting("b")), minAvailable=6)
    found = group(given, ready=ready)["spec"]
    assert found["minTaskMember"] == members
    assert found["minMember"] == minimum
    assert found["minResources"] == {"count/pods": str(minimum), "pods": str(minimum)}


def test_coscheduling_counts_only_tasks_that_are_ready() -> None:
    given = job(task("a", 2), task("b", 3, **waiting("a")), minAvailable=5)
    assert group(given, "coscheduling")["spec"]["minMember"] == 2
    assert group(given, "coscheduling", ready=["a", "b"])["spec"]["minMember"] == 5


def test_a_task_that_depends_on_nobody_is_ready_at_once() -> None:
    assert group(job(task("a", dependsOn={"name": []}), task("b", **waiting("a"))))["spec"][
        "minTaskMember"
    ] == {"a": 1}


def test_a_smaller_gang_of_the_jobs_own_stays_the_limit_while_tasks_wait() -> None:
    given = job(task("a", 4), task("b", 4, **waiting("a")), minAvailable=3)
    assert group(given)["spec"]["minMember"] == 3
    assert group(given, ready=["a", "b"])["spec"]["minMember"] == 3


def test_a_waiting_partitioned_task_is_no_sub_group_yet() -> None:
    policy = {"totalPartitions": 1, "partitionSize": 1, "minPartitions": 1}
    given = job(task("a"), task("b", partitionPolicy=policy, **waiting("a")))
    assert "subGroupPolicy" not in group(given)["spec"]
    assert group(given, ready=["a", "b"])["spec"]["subGroupPolicy"][0]["name"] == "b"


def test_without_a_minimum_of_its_own_the_gang_is_what_the_tasks_need() -> None:
    given = job(task("a", 3, minAvailable=2), task("b", 2, minAvailable=None))
    assert group(given)["spec"]["minMember"] == 4
    assert group(given)["spec"]["minTaskMember"] == {"a": 2, "b": 2}


def cpu(given: Job, **priorities: int) -> str:
    [found] = of_kind(Plan(given, priorities=priorities).objects(), "PodGroup")
    return str(found["spec"]["minResources"]["cpu"])


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [(1, "1"), (2, "11"), (3, "21")],
)
def test_a_gang_smaller_than_its_tasks_need_counts_its_first_pods(minimum: int, expected: str) -> None:
    given = job(task("a", 1, spec=asking(cpu="1")), task("b", 3, spec=asking(cpu="10")), minAvailable=minimum)
    assert cpu(given) == expected


def test_a_gang_larger_than_its_tasks_need_is_filled_up_in_order() -> None:
    given = job(
        task("a", 3, minAvailable=1, spec=asking(cpu="1")),
        task("b", 3, minAvailable=2, spec=asking(cpu="10")),
        minAvailable=6,
    )
    assert cpu(given) == "33"
    given.doc["spec"]["minAvailable"] = 4
    assert cpu(Job(given.doc)) == "22"


def test_tasks_of_a_higher_priority_are_counted_first() -> None:
    low = {**asking(cpu="1"), "priorityClassName": "low"}
    high = {**asking(cpu="10"), "priorityClassName": "high"}
    given = job(task("a", spec=low), task("b", spec=high), minAvailable=1)
    assert cpu(given) == "1", "classes that nobody knows are worth nothing"
    assert cpu(given, low=1, high=2) == "10"
    assert cpu(given, high=1) == "10"
    assert cpu(given, low=3, high=2) == "1"
    critical = {**asking(cpu="100"), "priorityClassName": "system-cluster-critical"}
    most = {**asking(cpu="1000"), "priorityClassName": "system-node-critical"}
    assert cpu(job(task("a", spec=high), task("b", spec=critical), minAvailable=1), high=9) == "100"
    assert cpu(job(task("b", spec=critical), task("c", spec=most), minAvailable=1)) == "1k"


def test_a_job_without_pods_has_an_empty_gang() -> None:
    found = group(job(task("worker", 0), minAvailable=0))["spec"]
    assert (found["minMember"], found["minResources"]) == (0, {})
