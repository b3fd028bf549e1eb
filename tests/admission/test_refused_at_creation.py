"""Each rule of contract §4 for new Jobs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import (
    admitted,
    container,
    errors,
    job,
    pytorch_job,
    refused,
    task,
    template,
    warned,
)
from vcjob.admission import tasks as task_checks

WORK = "spec.tasks[0]"


# Tasks and their numbers


@pytest.mark.parametrize("tasks", [[], None])
def test_no_tasks(tasks: list[Any] | None) -> None:
    doc = job()
    doc["spec"]["tasks"] = tasks
    assert "add a task" in (refused(doc, "spec.tasks", "at least one task").hint or "")


def test_no_tasks_at_all() -> None:
    doc = job()
    del doc["spec"]["tasks"]
    refused(doc, "spec.tasks", "at least one task")


def test_duplicate_task_names() -> None:
    refused(job(task("a"), task("b"), task("a")), "spec.tasks[2].name", "spec.tasks[0] has that name")


def test_a_default_name_can_collide_too() -> None:
    refused(job(task("default1"), task("")), "spec.tasks[1].name", "a second task named `default1`")


def test_task_min_available_above_its_replicas() -> None:
    refused(job(task(replicas=2, minAvailable=3), minAvailable=1), f"{WORK}.minAvailable", "only 2 replicas")
    admitted(job(task(replicas=2, minAvailable=2)))


def test_job_min_available_above_all_replicas() -> None:
    refused(job(task("a", 2), task("b", 1), minAvailable=4), "spec.minAvailable", "only 3 replicas")
    admitted(job(task("a", 2), task("b", 1), minAvailable=3))


def test_a_job_of_no_replicas_is_admitted() -> None:
    assert admitted(job(task(replicas=0))).job is not None


def test_more_pods_than_a_cluster_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    refused(job(task(replicas=2**31 - 1), plugins={"svc": []}), "spec.tasks", "at most 150000")
    monkeypatch.setattr(task_checks, "MAX_PODS", 3)
    admitted(job(task(replicas=3)))
    refused(job(task(replicas=4)), "spec.tasks", "4 pods: at most 3")


def test_a_min_success_that_can_never_be_met_is_warned_about() -> None:
    warned(job(task(replicas=2), minSuccess=3), "spec.minSuccess", "never be met")
    assert admitted(job(task(replicas=2), minSuccess=2)).problems == []


# Names


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": None}])
def test_a_job_without_a_name(metadata: dict[str, Any]) -> None:
    refused({**job(), "metadata": metadata}, "metadata.name", "no name")


def test_a_generated_name_is_for_clusters_only() -> None:
    doc = {**job(), "metadata": {"generateName": "j-"}}
    assert "write `name`" in (refused(doc, "metadata.generateName", "only a cluster").hint or "")
    admitted(doc, ground="cluster")
    doc["metadata"]["generateName"] = "J-"
    refused(doc, "metadata.generateName", "lower-case", ground="cluster")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.b", "has dots"),
        ("1a", "must begin with a letter"),
        ("A", "lower-case"),
        ("a" * 60, "is 60 characters long; at most 59"),
        ("a_b", "lower-case"),
    ],
)
@pytest.mark.parametrize("plugins", [{"svc": []}, {"pytorch": ["--master=m"]}])
def test_a_job_name_that_can_name_no_service(name: str, words: str, plugins: dict[str, Any]) -> None:
    found = errors(job(task("m", replicas=0), name=name, plugins=plugins))
    assert [problem.path for problem in found if words in problem.message] == ["metadata.name"]


def test_the_longest_job_name() -> None:
    admitted(job(task("m"), name="a" * 59, plugins={"svc": []}))


def test_without_a_service_a_name_may_have_dots_and_begin_with_a_digit() -> None:
    admitted(job(name="1.a", plugins={"env": []}))
    refused(job(name="A.b"), "metadata.name", "lower-case")
    refused(job(name="a." * 31 + "aa"), "metadata.name", "64 characters")


def test_a_namespace_that_is_none() -> None:
    doc = job()
    doc["metadata"]["namespace"] = "A.b"
    refused(doc, "metadata.namespace", "lower-case")


@pytest.mark.parametrize(
    ("name", "words"),
    [("Work", "lower-case"), ("a.b", "lower-case"), ("-a", "begin and end"), ("a" * 64, "64 characters")],
)
def test_a_task_name_that_is_no_dns_label(name: str, words: str) -> None:
    refused(job(task(name)), f"{WORK}.name", words)


def test_pod_names_are_measured_at_the_largest_index() -> None:
    name = "a" * 30 + "-" + "b" * 27  # with `-w-` and one digit: 62
    admitted(job(task("w", 10), name=name))
    admitted(job(task("w", 100), name=name))
    problem = refused(job(task("w", 101), name=name), f"{WORK}.name", f"`{name}-w-100`: 64 characters")
    assert problem.hint == "make the name of the Job or of the task 1 characters shorter"


def test_a_queue_name_that_can_be_no_label() -> None:
    refused(job(queue="q" * 64), "spec.queue", "longer than 63")
    admitted(job(queue="q" * 63))


# Policies

JOB_POLICIES = "spec.policies"


def policies(*each: dict[str, Any]) -> dict[str, Any]:
    return job(policies=list(each))


def test_event_together_with_exit_code() -> None:
    refused(
        policies({"event": "PodFailed", "exitCode": 3, "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].exitCode",
        "not both",
    )
    refused(
        policies({"events": ["PodFailed"], "exitCode": 3, "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].exitCode",
        "not both",
    )


@pytest.mark.parametrize("policy", [{}, {"events": []}, {"event": ""}, {"event": None, "exitCode": None}])
def test_neither_event_nor_exit_code(policy: dict[str, Any]) -> None:
    refused(policies({**policy, "action": "AbortJob"}), f"{JOB_POLICIES}[0]", "no event and no exitCode")


@pytest.mark.parametrize("event", ["PodRunning", "OutOfSync", "CommandIssued", "podfailed"])
def test_unknown_event(event: str) -> None:
    problem = refused(
        policies({"event": event, "action": "AbortJob"}), f"{JOB_POLICIES}[0].event", f"`{event}`"
    )
    assert event != "podfailed" or problem.hint == "did you mean `PodFailed`?"


def test_unknown_event_in_a_list() -> None:
    refused(
        policies({"events": ["PodFailed", "X"], "action": "AbortJob"}),
        f"{JOB_POLICIES}[0].events",
        "unknown event `X`",
    )


@pytest.mark.parametrize("action", ["SyncJob", "Enqueue", "restartjob", "Nothing"])
def test_unknown_action(action: str) -> None:
    problem = refused(
        policies({"event": "PodFailed", "action": action}), f"{JOB_POLICIES}[0].action", f"`{action}`"
    )
    assert action != "restartjob" or problem.hint == "did you mean `RestartJob`?"
    assert action != "Nothing" or "AbortJob, RestartJob" in (problem.hint or "")


@pytest.mark.parametrize("cause", [{"event": "PodFailed"}, {"exitCode": 1}])
def test_no_action(cause: dict[str, Any]) -> None:
    refused(policies(cause), f"{JOB_POLICIES}[0]", "no action")


def test_duplicate_event() -> None:
    one = {"event": "PodFailed", "action": "AbortJob"}
    refused(
        policies(one, {"events": ["Unknown", "PodFailed"], "action": "RestartJob"}),
        f"{JOB_POLICIES}[1].events",
        "number 1",
    )
    refused(job(task(policies=[one, one])), f"{WORK}.policies[1].event", "`PodFailed`")
    admitted(job(task(policies=[one]), policies=[one]))
    admitted(policies({"event": "PodFailed", "events": ["PodFailed"], "action": "AbortJob"}))


def test_duplicate_exit_code() -> None:
    one = {"exitCode": 3, "action": "AbortJob"}
    refused(
        policies(one, {"exitCode": 3, "action": "RestartJob"}), f"{JOB_POLICIES}[1].exitCode", "exitCode `3`"
    )


def test_exit_code_0() -> None:
    refused(policies({"exitCode": 0, "action": "AbortJob"}), f"{JOB_POLICIES}[0].exitCode", "success")


def test_any_event_beside_others() -> None:
    star, other = {"event": "*", "action": "AbortJob"}, {"event": "PodFailed", "action": "RestartJob"}
    assert "PodFailed" in (refused(policies(other, star), f"{JOB_POLICIES}[1]", "every event").hint or "")
    refused(
        policies({"events": ["*", "PodFailed"], "action": "AbortJob"}), f"{JOB_POLICIES}[0]", "every event"
    )
    admitted(policies(star, {"exitCode": 3, "action": "AbortJob"}))


def test_pod_pending_needs_a_timeout() -> None:
    doc = {"event": "PodPending", "action": "AbortJob"}
    refused(policies(doc), f"{JOB_POLICIES}[0]", "needs a timeout")
    admitted(policies({**doc, "timeout": "5m"}))


def test_a_negative_timeout() -> None:
    refused(
        policies({"event": "PodFailed", "action": "AbortJob", "timeout": "-1s"}),
        f"{JOB_POLICIES}[0].timeout",
        "negative",
    )
    admitted(policies({"event": "PodFailed", "action": "AbortJob", "timeout": "0"}))


@pytest.mark.parametrize(
    "event", ["*", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "TaskFailed", "JobUpdated"]
)
def test_every_event_is_known(event: str) -> None:
    admitted(policies({"event": event, "action": "AbortJob"}))


@pytest.mark.parametrize(
    "action",
    [
        "AbortJob",
        "RestartJob",
        "RestartTask",
        "RestartPod",
        "RestartPartition",
        "TerminateJob",
        "CompleteJob",
        "ResumeJob",
    ],
)
def test_every_action_is_known(action: str) -> None:
    admitted(policies({"event": "PodFailed", "action": action}))


# Topology


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"requests": {"cpu": "1500m"}},
        {"limits": {"cpu": "0.5"}},
        {"requests": {"memory": "1Gi"}, "limits": {"cpu": 2}},
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
        "needs whole cpus",
    )
    admitted(job(task(template=pod, topologyPolicy="none")))


@pytest.mark.parametrize("resources", [{"requests": {"cpu": 2}}, {"limits": {"cpu": "4000m"}}])
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
    refused(job(networkTopology=both), "spec.networkTopology.highestTierName", "given twice")
    policy = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": both}
    refused(
        job(task(partitionPolicy=policy)),
        f"{WORK}.partitionPolicy.networkTopology.highestTierName",
        "given twice",
    )
    admitted(job(networkTopology={"highestTierAllowed": 2}))
    admitted(job(networkTopology={"highestTierName": "rack", "highestTierAllowed": None}))


# Plugins


@pytest.mark.parametrize("name", ["ssh", "mpi", "tensorflow", "ray", "hcclrank"])
def test_volcanos_other_plugins_are_refused_with_a_sentence(name: str) -> None:
    assert refused(job(plugins={name: []}), f"spec.plugins.{name}", "not served here").hint


def test_unknown_plugin() -> None:
    problem = refused(job(plugins={"pytroch": []}), "spec.plugins.pytroch", "pytroch")
    assert "pytorch" in (problem.hint or "")


# Volumes

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = "spec.volumes[0]"


@pytest.mark.parametrize("volume", [{}, {"mountPath": ""}, {"mountPath": None}])
def test_volume_without_mount_path(volume: dict[str, Any]) -> None:
    refused(job(volumes=[{"volumeClaimName": "c", **volume}]), f"{VOLUME}.mountPath", "no mountPath")


def test_volumes_with_one_mount_path() -> None:
    volume = {"mountPath": "/data", "volumeClaimName": "c"}
    refused(job(volumes=[volume, volume]), "spec.volumes[1].mountPath", "already by spec.volumes[0]")


def test_volume_with_both_claims() -> None:
    refused(
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "c", "volumeClaim": CLAIM}]),
        f"{VOLUME}.volumeClaimName",
        "two claims",
    )


@pytest.mark.parametrize("volume", [{}, {"volumeClaimName": ""}, {"volumeClaim": None}])
def test_volume_with_neither_claim(volume: dict[str, Any]) -> None:
    refused(job(volumes=[{"mountPath": "/d", **volume}]), VOLUME, "no claim")


def test_a_claim_that_no_api_server_would_make() -> None:
    refused(
        job(volumes=[{"mountPath": "/d", "volumeClaim": {"resources": CLAIM["resources"]}}]),
        f"{VOLUME}.volumeClaim",
        "accessModes",
    )
    refused(
        job(volumes=[{"mountPath": "/d", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]),
        f"{VOLUME}.volumeClaim",
        "no storage",
    )
    admitted(job(volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}]))


def test_a_volume_where_a_container_has_a_mount_already() -> None:
    pod = template(
        container(volumeMounts=[{"name": "v", "mountPath": "/d"}]), volumes=[{"name": "v", "emptyDir": {}}]
    )
    refused(
        job(task(template=pod), volumes=[{"mountPath": "/d", "volumeClaimName": "c"}]),
        f"{WORK}.template.spec.containers[0].volumeMounts[0].mountPath",
        "spec.volumes[0]",
    )


# Queues

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
        ("parent", "is a parent"),
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
    assert "make a queue" in (refused(job(), "spec.queue", "no queue", queues={}).hint or "")
    assert "closed, default" in (
        refused(job(queue="zzz"), "spec.queue", "no queue", queues=QUEUES).hint or ""
    )


# Dependencies


def after(name: str, *needed: str) -> dict[str, Any]:
    return task(name, dependsOn={"name": list(needed)})


def test_depends_on_that_names_no_task() -> None:
    problem = refused(
        job(task("first"), after("b", "first", "frist")),
        "spec.tasks[1].dependsOn.name[1]",
        "no task named `frist`",
    )
    assert problem.hint == "did you mean `first`?"


def test_depends_on_that_forms_a_cycle() -> None:
    refused(
        job(after("a", "b"), after("b", "c"), after("c", "a")), "spec.tasks[2].dependsOn", "a → b → c → a"
    )
    refused(job(task("x"), after("a", "a", "x")), "spec.tasks[1].dependsOn", "a → a")


def test_two_cycles_are_two_problems() -> None:
    found = errors(job(after("a", "b"), after("b", "a"), after("c", "d"), after("d", "c"), after("e", "a")))
    assert len(found) == 2


def test_a_diamond_is_no_cycle() -> None:
    admitted(job(task("a"), after("b", "a"), after("c", "a"), after("d", "b", "c")))


def test_a_long_chain_is_no_problem() -> None:
    chain = [task("t0")] + [after(f"t{i}", f"t{i - 1}") for i in range(1, 2000)]
    admitted(job(*reversed(chain)))
    refused(job(after("t0", "t1999"), *chain[1:]), "spec.tasks[1].dependsOn", "circle")


# Ranks (the pytorch plugin's own rules reach the user through admission)


def test_bad_flags_missing_master_and_bad_policies_are_told_at_once() -> None:
    doc = pytorch_job("--port=abc", policies=[{"event": "X", "action": "AbortJob"}])
    assert {problem.path for problem in errors(doc)} == {"spec.plugins.pytorch[0]", "spec.policies[0].event"}
