"""Properties of the plan of every Job that admission accepts."""

from __future__ import annotations

import json
import re
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.plan.kubernetes_schemas import NEWEST, OLDEST, problems
from tests.strategies import jobs
from vcjob.admission.review import admit
from vcjob.plan.gang import GANGS, GangName
from vcjob.plan.plan import Plan
from vcjob.spec.job import Job

of_kubernetes = {"ConfigMap", "Service", "NetworkPolicy", "PersistentVolumeClaim", "Pod"}
properties = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def admitted(document: dict[str, Any]) -> Job:
    job = admit(document).job
    assume(job is not None)
    assert job is not None
    return job


@properties
@given(document=jobs(), gang=st.sampled_from(GANGS))
def test_every_valid_job_renders_the_same_twice(document: dict[str, Any], gang: GangName) -> None:
    job = admitted(document)
    first = list(Plan(job, gang=gang).render_json())
    again = list(Plan(admitted(json.loads(json.dumps(document))), gang=gang).render_json())
    assert first == again
    pods = [obj for obj in map(json.loads, first) if obj["kind"] == "Pod"]
    assert [pod["metadata"]["name"] for pod in pods] == [
        f"{job.name}-{task.name}-{index}" for task in job.tasks for index in range(task.replicas)
    ]


@properties
@given(document=jobs(pytorch=True))
def test_ranks_are_exactly_zero_to_the_world_size(document: dict[str, Any]) -> None:
    plan = Plan(admitted(document))
    arguments = " ".join(plan.job.spec.plugins["pytorch"] or ())
    chosen = dict(re.findall("--(master|worker)=([^ ]+)", arguments))
    having_ranks = {chosen.get("master", "master"), chosen.get("worker", "worker")}
    ranks, sizes, addresses = [], set(), set()
    for pod in plan.pods():
        for container in [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]:
            names = [entry["name"] for entry in container["env"]]
            assert len(names) == len(set(names))
            env = {entry["name"]: entry.get("value") for entry in container["env"]}
            sizes.add(env["WORLD_SIZE"])
            addresses.add((env["MASTER_ADDR"], env["MASTER_PORT"]))
        if pod["metadata"]["labels"]["volcano.sh/task-spec"] in having_ranks:
            ranks.append(int(env["RANK"] or ""))
    assert len(sizes) == len(addresses) == 1
    assert sorted(ranks) == list(range(int(sizes.pop())))


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@properties
@given(document=jobs(), gang=st.sampled_from(GANGS))
def test_every_object_passes_the_schema_of_kubernetes(
    version: str, document: dict[str, Any], gang: GangName
) -> None:
    for obj in Plan(admitted(document), gang=gang).render():
        if obj["kind"] in of_kubernetes:
            assert problems(obj, version) == []


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_guides_pods_pass_the_validator_that_ships_the_schemas(version: str) -> None:
    for name in ("en", "zh", "old"):
        from vcjob.sdk import render

        for obj in render(f"tests/guides/guide.{name}.yaml"):
            if obj["kind"] in of_kubernetes:
                assert kubernetes_validate.validate(obj, version, strict=True) == version


@properties
@given(document=jobs())
def test_labels_and_names_are_ones_that_the_api_server_takes(document: dict[str, Any]) -> None:
    from vcjob.spec import names

    for gang in GANGS:
        for obj in Plan(admitted(document), gang=gang).render():
            metadata = obj["metadata"]
            assert names.dns_subdomain(metadata["name"]) is None
            for key, value in metadata.get("labels", {}).items():
                prefix, slash, name = key.rpartition("/")
                assert name and names.label_value(name) is None
                assert not slash or names.dns_subdomain(prefix) is None
                assert names.label_value(value) is None
            for volume in obj.get("spec", {}).get("volumes", []):
                assert names.dns_label(volume["name"]) is None


@properties
@given(document=jobs(), version=st.integers(0, 99), attempt=st.integers(0, 99), retries=st.integers(0, 99))
def test_a_pods_counters_change_nothing_but_themselves(
    document: dict[str, Any], version: int, attempt: int, retries: int
) -> None:
    plan = Plan(admitted(document))
    for task in plan.job.tasks:
        for index in range(task.replicas):
            plain = plan.pod(task.name, index)
            counted = plan.pod(task.name, index, version=version, attempt=attempt, retries=retries)
            for pod, expected in ((plain, (0, 0, 0)), (counted, (version, attempt, retries))):
                annotations = pod["metadata"]["annotations"]
                keys = ("volcano.sh/job-version", "vcjob.io/attempt", "volcano.sh/job-retry-count")
                assert tuple(int(annotations.pop(key)) for key in keys) == expected
                assert int(pod["metadata"]["labels"].pop("vcjob.io/attempt")) == expected[1]
            assert plain == counted
