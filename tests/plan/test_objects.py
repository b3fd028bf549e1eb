"""The objects other than pods: their order, their owner, and the claims of the Job's volumes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest

from tests.plan.jobs import UID, container, job, of_kind, task
from vcjob.plan.plan import Plan
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.spec.job import Job
from vcjob.spec.problem import Problem

CLAIM = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}


def digest(mount_path: str) -> str:
    return hashlib.sha256(f"{UID}{mount_path}".encode()).hexdigest()[:12]


class Extra(Plugin[None]):
    name: ClassVar[str] = "extra"

    def parse(self, arguments: Sequence[str]) -> tuple[None, list[Problem]]:
        return None, []

    def shape(self, draft: PodDraft, options: None) -> None:
        pass

    def objects(self, job: Job, options: None) -> Iterable[dict[str, Any]]:
        for kind in ("Widget", "PersistentVolumeClaim", "NetworkPolicy", "Service", "ConfigMap"):
            yield {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "ownerReferences": []}}


def test_improvement_13_objects_come_in_the_order_of_creation_and_belong_to_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vcjob.plan.plan.open_plugins", lambda job: [(Extra(), None)])
    plan = Plan(job(task("worker")))
    objects = plan.objects()
    kinds = ["ConfigMap", "Service", "NetworkPolicy", "PodGroup", "PersistentVolumeClaim", "Widget"]
    assert [obj["kind"] for obj in objects] == kinds
    owner = plan.pod("worker", 0)["metadata"]["ownerReferences"]
    assert all(obj["metadata"]["ownerReferences"] == owner for obj in objects)
    assert {obj["metadata"]["namespace"] for obj in objects} == {"team"}


def test_a_volume_with_a_claim_of_its_own_makes_one() -> None:
    plan = Plan(job(task("worker"), volumes=[{"mountPath": "/data", "volumeClaim": CLAIM}]))
    [claim] = of_kind(plan.objects(), "PersistentVolumeClaim")
    assert claim["apiVersion"] == "v1"
    assert claim["metadata"]["name"] == f"train-pvc-{digest('/data')}"
    assert claim["spec"] == CLAIM
    pod = plan.pod("worker", 0)["spec"]
    assert pod["volumes"] == [
        {
            "name": f"train-{digest('/data')}",
            "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]},
        }
    ]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": f"train-{digest('/data')}", "mountPath": "/data"}
    ]


def test_a_claim_that_is_there_already_is_used_and_not_made() -> None:
    plan = Plan(job(task("worker"), volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}]))
    assert of_kind(plan.objects(), "PersistentVolumeClaim") == []
    assert plan.pod("worker", 0)["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "shared"}


def test_a_claim_that_volcano_has_named_is_not_made_again() -> None:
    """Volcano writes the name of the claim that it created into the Job, next to the claim."""
    volumes = [{"mountPath": "/data", "volumeClaim": CLAIM, "volumeClaimName": "made"}]
    plan = Plan(job(task("worker"), volumes=volumes))
    assert of_kind(plan.objects(), "PersistentVolumeClaim") == []
    assert plan.pod("worker", 0)["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "made"}


def test_a_claim_keeps_its_name_over_time_and_differs_between_jobs_and_paths() -> None:
    def claim(uid: str, path: str) -> str:
        given = job(
            task("worker"), metadata={"uid": uid}, volumes=[{"mountPath": path, "volumeClaim": CLAIM}]
        )
        name: str = of_kind(Plan(given).objects(), "PersistentVolumeClaim")[0]["metadata"]["name"]
        return name

    assert claim("u1", "/a") == claim("u1", "/a")
    assert len({claim("u1", "/a"), claim("u1", "/b"), claim("u2", "/a")}) == 3


def test_one_claim_at_two_places_is_one_volume() -> None:
    volumes = [
        {"mountPath": "/a", "volumeClaimName": "shared"},
        {"mountPath": "/b", "volumeClaimName": "shared"},
    ]
    pod = Plan(job(task("worker"), volumes=volumes)).pod("worker", 0)["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == [f"train-{digest('/a')}"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/a", "/b"]


def test_volumes_are_mounted_in_containers_after_their_own_and_not_in_init_containers() -> None:
    own = {"name": "scratch", "mountPath": "/scratch"}
    spec = {
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "containers": [container(volumeMounts=[own]), container("side")],
        "initContainers": [container("pre")],
    }
    plan = Plan(job(task("worker", spec=spec), volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}]))
    pod = plan.pod("worker", 0)["spec"]
    mount = {"name": f"train-{digest('/data')}", "mountPath": "/data"}
    assert [c["volumeMounts"] for c in pod["containers"]] == [[own, mount], [mount]]
    assert "volumeMounts" not in pod["initContainers"][0]
    assert [volume["name"] for volume in pod["volumes"]] == ["scratch", mount["name"]]


def test_a_containers_own_mount_at_the_same_place_is_left_alone() -> None:
    own = {"name": "scratch", "mountPath": "/data"}
    spec = {"containers": [container(volumeMounts=[own])]}
    plan = Plan(job(task("worker", spec=spec), volumes=[{"mountPath": "/data", "volumeClaimName": "shared"}]))
    assert plan.pod("worker", 0)["spec"]["containers"][0]["volumeMounts"] == [own]


@pytest.mark.parametrize("name", ["a" * 59, "a" * 49 + "-" + "b" * 9])
def test_the_volume_of_a_long_job_name_is_still_a_dns_label(name: str) -> None:
    given = job(
        task("w"), metadata={"name": name}, volumes=[{"mountPath": "/a", "volumeClaimName": "shared"}]
    )
    volume = Plan(given).pod("w", 0)["spec"]["volumes"][0]["name"]
    assert volume == f"{name[:50].rstrip('-')}-{digest('/a')}"
    assert len(volume) <= 63
