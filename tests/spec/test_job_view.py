"""The typed view of a Job: nulls count as absent, an explicit 0 stays 0, and no field is lost."""

from __future__ import annotations

from typing import Any

import pytest

from vcjob.spec.job import NO_UID, DependsOn, Job, PartitionPolicy, Policy, VolumeSpec

FULL: dict[str, Any] = {
    "metadata": {
        "name": "j",
        "namespace": "n",
        "uid": "u",
        "labels": {"a": "b", "gone": None},
        "annotations": {"c": "d", "gone": None},
        "creationTimestamp": None,
    },
    "spec": {
        "minAvailable": 0,
        "maxRetry": 0,
        "queue": None,
        "plugins": {"pytorch": ["--port=1"], "svc": None},
        "policies": [{"event": "PodFailed", "events": ["Unknown"], "exitCode": None, "action": "AbortJob", "timeout": "1m"}],
        "volumes": [{"mountPath": "/d", "volumeClaimName": "c", "volumeClaim": None}],
        "tasks": [
            {
                "name": "a",
                "replicas": 2,
                "minAvailable": None,
                "template": {"spec": {"containers": [{"name": "c", "command": None}]}},
                "policies": [{"exitCode": 3, "event": None, "action": "RestartJob"}],
                "dependsOn": {"name": ["b"], "iteration": None},
                "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2, "minPartitions": None},
            },
            {"name": "b", "replicas": 3, "template": None},
        ],
    },
}  # fmt: skip


@pytest.fixture
def job() -> Job:
    return Job(FULL)


def test_the_document_is_kept_as_it_is(job: Job) -> None:
    assert job.doc is FULL


def test_names(job: Job) -> None:
    assert (job.name, job.namespace, job.uid, repr(job)) == ("j", "n", "u", "Job(n/j)")
    bare = Job({"metadata": {"name": "x"}})
    assert (bare.namespace, bare.uid, bare.tasks) == ("default", NO_UID, ())


def test_metadata_without_its_nulls(job: Job) -> None:
    assert job.metadata.labels == {"a": "b"}
    assert job.metadata.annotations == {"c": "d"}
    assert job.metadata.creation_timestamp is None


def test_an_explicit_0_is_0_and_null_is_absent(job: Job) -> None:
    assert (job.spec.min_available, job.spec.max_retry, job.spec.queue) == (0, 0, None)
    assert job.tasks[0].min_available is None


def test_plugins_keep_their_null(job: Job) -> None:
    assert job.spec.plugins == {"pytorch": ("--port=1",), "svc": None}


def test_policies(job: Job) -> None:
    assert job.spec.policies == (
        Policy(action="AbortJob", event="PodFailed", events=("Unknown",), timeout="1m"),
    )
    assert job.spec.policies[0].all_events == ("PodFailed", "Unknown")
    assert job.tasks[0].policies == (Policy(action="RestartJob", exit_code=3),)
    assert job.tasks[0].policies[0].all_events == ()


def test_volumes(job: Job) -> None:
    assert job.spec.volumes == (VolumeSpec(mount_path="/d", volume_claim_name="c"),)


def test_tasks(job: Job) -> None:
    first, second = job.tasks
    assert job.replicas == 5
    assert job.task("a") is first
    assert job.task("zzz") is None
    assert first.depends_on == DependsOn(name=("b",))
    assert first.partition_policy == PartitionPolicy(total_partitions=1, partition_size=2)
    assert first.pod_spec == {"containers": [{"name": "c", "command": None}]}
    assert second.pod_spec == {}
    assert second.policies == ()


@pytest.mark.parametrize(
    "doc",
    [{}, {"spec": None, "metadata": None}, {"spec": {"tasks": None, "policies": None, "volumes": None}}],
)
def test_the_view_of_an_empty_job(doc: dict[str, Any]) -> None:
    job = Job(doc)
    assert (job.name, job.tasks, job.replicas, job.spec.policies, job.spec.volumes) == ("", (), 0, (), ())
