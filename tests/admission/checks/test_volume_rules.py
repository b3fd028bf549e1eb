"""Checks of the volumes of a new Job."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.cases import admitted, container, job, refused, task, template

WORK = "spec.tasks[0]"


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VOLUME = "spec.volumes[0]"


@pytest.mark.parametrize("volume", [{}, {"mountPath": ""}, {"mountPath": None}])
def test_volume_without_mount_path(volume: dict[str, Any]) -> None:
    refused(job(volumes=[{"volumeClaimName": "c", **volume}]), f"{VOLUME}.mountPath", "no mountPath")


def test_volumes_with_one_mount_path() -> None:
    volume = {"mountPath": "/data", "volumeClaimName": "c"}
    refused(job(volumes=[volume, volume]), "spec.volumes[1].mountPath", "spec.volumes[0] has the same path")


def test_volume_with_both_claims() -> None:
    refused(
        job(volumes=[{"mountPath": "/d", "volumeClaimName": "c", "volumeClaim": CLAIM}]),
        f"{VOLUME}.volumeClaimName",
        "both volumeClaimName and volumeClaim",
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
