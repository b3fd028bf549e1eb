"""The parts of a pod that do not depend on plugins."""

from __future__ import annotations

import json

import pytest

from tests.plan.jobs import UID, container, job, task
from vcjob.errors import UserError
from vcjob.plan.plan import Plan


def test_improvement_29_a_pod_says_whose_it_is_which_one_and_which_try() -> None:
    pod = Plan(job(task("worker", 3), queue="gold")).pod("worker", 2, version=4, attempt=5, retries=6)
    assert pod["apiVersion"] == "v1"
    assert pod["kind"] == "Pod"
    assert pod["metadata"] == {
        "name": "train-worker-2",
        "namespace": "team",
        "labels": {
            "volcano.sh/task-index": "2",
            "volcano.sh/job-name": "train",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/job-namespace": "team",
            "volcano.sh/queue-name": "gold",
            "vcjob.io/attempt": "5",
        },
        "annotations": {
            "volcano.sh/task-index": "2",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/job-name": "train",
            "volcano.sh/queue-name": "gold",
            "volcano.sh/job-version": "4",
            "volcano.sh/template-uid": "train-worker",
            "volcano.sh/job-retry-count": "6",
            "vcjob.io/attempt": "5",
            "scheduling.k8s.io/group-name": f"train-{UID}",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch.volcano.sh/v1alpha1",
                "kind": "Job",
                "name": "train",
                "uid": UID,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_versions_attempts_and_retries_begin_at_zero() -> None:
    metadata = Plan(job(task("worker"))).pod("worker", 0)["metadata"]
    assert metadata["annotations"]["volcano.sh/job-version"] == "0"
    assert metadata["annotations"]["volcano.sh/job-retry-count"] == "0"
    assert metadata["labels"]["vcjob.io/attempt"] == "0"
    plan = Plan(job(task("worker")))
    assert json.loads(plan.pod_json("worker", 0)) == plan.pod("worker", 0)


def test_a_job_without_queue_or_uid_gets_the_default_queue_and_the_empty_uid() -> None:
    given = job(task("worker"), metadata={"uid": None, "namespace": None}, queue=None)
    metadata = Plan(given).pod("worker", 0)["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["labels"]["volcano.sh/queue-name"] == "default"
    assert metadata["ownerReferences"][0]["uid"] == "00000000-0000-0000-0000-000000000000"


def test_labels_and_annotations_of_the_template_stay_and_ours_win() -> None:
    given = task("worker")
    given["template"]["metadata"] = {
        "labels": {"app": "x", "volcano.sh/job-name": "other", "empty": None},
        "annotations": {"note": "y", "volcano.sh/task-spec": "other"},
        "finalizers": ["example.com/keep"],
        "name": "ignored",
        "creationTimestamp": None,
    }
    metadata = Plan(job(given)).pod("worker", 0)["metadata"]
    assert metadata["labels"]["app"] == "x"
    assert "empty" not in metadata["labels"]
    assert metadata["labels"]["volcano.sh/job-name"] == "train"
    assert metadata["annotations"]["note"] == "y"
    assert metadata["annotations"]["volcano.sh/task-spec"] == "worker"
    assert metadata["finalizers"] == ["example.com/keep"]
    assert metadata["name"] == "train-worker-0"
    assert "creationTimestamp" not in metadata


def test_some_labels_and_annotations_of_the_job_travel() -> None:
    given = {
        "labels": {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5m", "other": "stays"},
        "annotations": {
            "volcano.sh/preemptable": "false",
            "volcano.sh/cooldown-time": "6m",
            "volcano.sh/revocable-zone": "*",
            "volcano.sh/jdb-max-unavailable": "1",
            "other": "stays",
        },
    }
    metadata = Plan(job(task("worker"), metadata=given)).pod("worker", 0)["metadata"]
    assert metadata["labels"]["volcano.sh/preemptable"] == "true"
    assert metadata["labels"]["volcano.sh/cooldown-time"] == "5m"
    assert metadata["annotations"]["volcano.sh/preemptable"] == "false"
    assert metadata["annotations"]["volcano.sh/cooldown-time"] == "6m"
    assert metadata["annotations"]["volcano.sh/revocable-zone"] == "*"
    assert metadata["annotations"]["volcano.sh/jdb-max-unavailable"] == "1"
    assert "other" not in {*metadata["labels"], *metadata["annotations"]}


def test_of_two_disruption_budgets_the_minimum_travels() -> None:
    both = {"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "1"}
    annotations = Plan(job(task("worker"), metadata={"annotations": both})).pod("worker", 0)["metadata"][
        "annotations"
    ]
    assert annotations["volcano.sh/jdb-min-available"] == "2"
    assert "volcano.sh/jdb-max-unavailable" not in annotations


def test_the_topology_policy_of_a_task_is_an_annotation() -> None:
    plan = Plan(job(task("a", topologyPolicy="single-numa-node"), task("b")))
    key = "volcano.sh/numa-topology-policy"
    assert plan.pod("a", 0)["metadata"]["annotations"][key] == "single-numa-node"
    assert key not in plan.pod("b", 0)["metadata"]["annotations"]


def test_pods_of_a_partitioned_task_know_their_partition() -> None:
    policy = {"totalPartitions": 2, "partitionSize": 3, "minPartitions": 1}
    plan = Plan(job(task("worker", 6, partitionPolicy=policy), task("other", 1)))
    ids = [plan.pod("worker", i)["metadata"]["labels"]["volcano.sh/partition-id"] for i in range(6)]
    assert ids == ["0", "0", "0", "1", "1", "1"]
    assert "volcano.sh/partition-id" not in plan.pod("other", 0)["metadata"]["labels"]


@pytest.mark.parametrize(("size", "expected"), [(0, "0"), (1, "1")])
def test_partitions_of_one_pod_or_of_no_size(size: int, expected: str) -> None:
    plan = Plan(job(task("worker", 2, partitionPolicy={"totalPartitions": 2, "partitionSize": size})))
    assert plan.pod("worker", 1)["metadata"]["labels"]["volcano.sh/partition-id"] == expected


def test_scheduler_and_priority_come_from_the_job_where_the_template_has_none() -> None:
    plan = Plan(
        job(
            task("plain"),
            task("own", spec={"schedulerName": "mine", "priorityClassName": "high"}),
            task("empty", spec={"schedulerName": "", "priorityClassName": ""}),
            schedulerName="other",
            priorityClassName="low",
        )
    )
    chosen = {
        t: (s["schedulerName"], s["priorityClassName"])
        for t in ("plain", "own", "empty")
        for s in [plan.pod(t, 0)["spec"]]
    }
    assert chosen == {"plain": ("other", "low"), "own": ("mine", "high"), "empty": ("other", "low")}


def test_an_empty_scheduler_name_is_none_at_all() -> None:
    plan = Plan(job(task("worker", spec={"schedulerName": ""})), gang="none")
    assert "schedulerName" not in plan.pod("worker", 0)["spec"]


def test_without_a_priority_class_anywhere_there_is_none() -> None:
    assert "priorityClassName" not in Plan(job(task("worker"))).pod("worker", 0)["spec"]


def test_fields_that_no_schema_knows_survive_byte_for_byte() -> None:
    future = {"z": [1, 2.5, True, None, "ü<#0>"], "a": {"b": "1e3"}, "big": 2**63}
    given = task("worker", spec={"futureField": future, "containers": [container(futureField=future)]})
    given["template"]["futureField"] = future
    text = Plan(job(given)).pod_json("worker", 0).decode()
    assert text.count(json.dumps(future, ensure_ascii=False, separators=(",", ":"))) == 3
    assert json.loads(text)["futureField"] == future


def test_null_lists_in_a_template_are_absent_lists() -> None:
    spec = {
        "initContainers": None,
        "volumes": None,
        "containers": [container(env=None, ports=None, volumeMounts=None)],
    }
    plan = Plan(job(task("master", spec=spec), plugins={"pytorch": [], "svc": [], "env": []}))
    pod = plan.pod("master", 0)["spec"]
    assert "initContainers" not in pod
    assert pod["containers"][0]["env"][0]["name"] == "MASTER_ADDR"


def test_null_fields_of_init_containers_are_absent_too() -> None:
    spec = {"initContainers": [container("pre", env=None, args=None)]}
    pod = Plan(job(task("worker", spec=spec))).pod("worker", 0)["spec"]
    assert pod["initContainers"] == [container("pre")]


def test_an_empty_template_makes_an_empty_pod() -> None:
    given = job({**task("worker"), "template": {}}, volumes=[{"mountPath": "/a", "volumeClaimName": "b"}])
    pod = Plan(given).pod("worker", 0)
    assert set(pod["spec"]) == {"schedulerName", "volumes"}


def test_the_job_itself_is_not_changed_by_planning() -> None:
    given = job(task("master"), task("worker", 2), plugins={"pytorch": ["--wait-master-enabled"]})
    before = json.dumps(given.doc)
    list(Plan(given).render())
    assert json.dumps(given.doc) == before


def test_improvement_1_siblings_differ_in_their_index_alone() -> None:
    given = job(
        task("master"),
        task("worker", 12),
        plugins={"pytorch": ["--wait-master-enabled"], "svc": [], "env": []},
    )
    plan = Plan(given)
    text = plan.pod_json("worker", 7).decode()
    as_another = (
        text.replace("train-worker-7", "train-worker-9")
        .replace('"volcano.sh/task-index":"7"', '"volcano.sh/task-index":"9"')
        .replace('_TASK_INDEX","value":"7"', '_TASK_INDEX","value":"9"')
        .replace('"RANK","value":"8"', '"RANK","value":"10"')
    )
    assert as_another == plan.pod_json("worker", 9).decode()


def test_improvement_5_injected_variables_come_first_and_each_name_once() -> None:
    env = [
        {"name": "URL", "value": "tcp://$(MASTER_ADDR):$(MASTER_PORT)"},
        {"name": "RANK", "value": "99"},
        {"name": "LAST", "value": "1"},
    ]
    spec = {"containers": [container(env=env)], "initContainers": [container("pre", env=env)]}
    plan = Plan(job(task("master", spec=spec), plugins={"pytorch": []}))
    for kind in ("containers", "initContainers"):
        entries = plan.pod("master", 0)["spec"][kind][0]["env"]
        names = [entry["name"] for entry in entries]
        assert names[:4] == ["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"]
        assert names[-2:] == ["URL", "LAST"]
        assert names.count("RANK") == 1
        assert entries[3]["value"] == "0"


def test_a_users_own_env_is_left_as_it_is_without_plugins() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod = Plan(job(task("worker", spec={"containers": [container(env=env), container("side")]}))).pod(
        "worker", 0
    )
    assert pod["spec"]["containers"] == [container(env=env), container("side")]


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_out_of_range_is_refused_with_the_range(index: int) -> None:
    with pytest.raises(UserError, match=f"task 'worker' has no index {index}") as caught:
        Plan(job(task("worker", 2))).pod("worker", index)
    assert caught.value.hint == "its pods are 0 to 1"


def test_an_index_of_a_task_without_replicas_is_refused() -> None:
    with pytest.raises(UserError) as caught:
        Plan(job(task("worker", 0))).pod("worker", 0)
    assert caught.value.hint == "it has no replicas"


def test_an_unknown_task_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="the Job has no task 'chief'") as caught:
        Plan(job(task("master"), task("worker"))).pod("chief", 0)
    assert caught.value.hint == "its tasks are: master, worker"


def test_pods_come_by_task_and_index_with_the_jobs_counters() -> None:
    plan = Plan(job(task("b", 2), task("a", 1)))
    pods = list(plan.pods(version=2, retries=1))
    assert [pod["metadata"]["name"] for pod in pods] == ["train-b-0", "train-b-1", "train-a-0"]
    assert pods == [plan.pod(t, i, version=2, retries=1) for t, i in (("b", 0), ("b", 1), ("a", 0))]


def test_the_whole_plan_is_the_objects_and_then_the_pods_in_both_forms() -> None:
    plan = Plan(job(task("master"), plugins={"pytorch": []}))
    whole = list(plan.render())
    assert whole == [*plan.objects(), *plan.pods()]
    assert [json.loads(text) for text in plan.render_json()] == whole
