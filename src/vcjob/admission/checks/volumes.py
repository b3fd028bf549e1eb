"""Checks of the volumes of a Job: where each is mounted, and which claim it uses.

`admission.review` calls `check`. Whether a claim exists is not checked, because that is for the cluster or the local
backend to know; the volumes of the pod templates are checked by `templates`.
"""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.spec.job import Job, VolumeSpec
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.wording import show


def check(job: Job, *, update: bool = False) -> Iterator[Problem]:
    """On an update a volume may have both a claim and a claim name: a controller adds the name."""
    first: dict[str, int] = {}
    for number, volume in enumerate(job.spec.volumes):
        where: Path = ("spec", "volumes", number)
        path = volume.mount_path
        if not path:
            yield error(
                (*where, "mountPath"),
                "the volume has no mountPath: it should be at least 1 chars long",
                "add the path where containers see it",
            )
        elif first.setdefault(path, number) != number:
            yield error(
                (*where, "mountPath"),
                f"duplicated mountPath `{show(path)}`: spec.volumes[{first[path]}] has the same path",
                "choose another path",
            )
        yield from _claim(volume, where, update=update)
    yield from _taken_paths(job, first)


def _claim(volume: VolumeSpec, where: Path, *, update: bool) -> Iterator[Problem]:
    claim = volume.volume_claim
    if claim is None:
        if not volume.volume_claim_name:
            yield error(
                where,
                "the volume has no claim: either VolumeClaim or VolumeClaimName must be specified",
                "add `volumeClaimName` (an existing claim) or `volumeClaim` (a new one)",
            )
        return
    if volume.volume_claim_name and not update:
        yield error(
            (*where, "volumeClaimName"),
            "the volume has both volumeClaimName and volumeClaim",
            "keep volumeClaimName for an existing claim, or volumeClaim for a new one",
        )
    if not claim.get("accessModes"):
        yield error(
            (*where, "volumeClaim"), "the claim has no accessModes", 'add `accessModes: ["ReadWriteOnce"]`'
        )
    requests = (claim.get("resources") or {}).get("requests") or {}
    if requests.get("storage") is None:
        yield error(
            (*where, "volumeClaim"),
            "the claim requests no storage",
            "add `resources: {requests: {storage: 10Gi}}`",
        )


def _taken_paths(job: Job, mounted: dict[str, int]) -> Iterator[Problem]:
    """A container cannot mount two volumes at one path."""
    if not mounted:
        return
    for number, task in enumerate(job.tasks):
        for where, container in task.containers(number):
            for place, mount in enumerate(container.get("volumeMounts") or []):
                path = mount.get("mountPath")
                if path in mounted:
                    yield error(
                        (*where, "volumeMounts", place, "mountPath"),
                        f"spec.volumes[{mounted[path]}] is mounted at `{show(path)}` in every container",
                        "choose another path",
                    )
