"""The Job's volumes: where each is mounted, and which claim stands behind it."""

from __future__ import annotations

from collections.abc import Iterator

from vcjob.spec.job import Job, VolumeSpec
from vcjob.spec.problem import Path, Problem, error


def check(job: Job, *, update: bool = False) -> Iterator[Problem]:
    """On an update a claim's name beside the claim is no problem: a controller has written it there."""
    first: dict[str, int] = {}
    for number, volume in enumerate(job.spec.volumes):
        where: Path = ("spec", "volumes", number)
        path = volume.mount_path
        if not path:
            yield error(
                (*where, "mountPath"),
                "the volume has no mountPath: it should be at least 1 chars long",
                "add the path at which containers see it",
            )
        elif first.setdefault(path, number) != number:
            yield error(
                (*where, "mountPath"),
                f"duplicated mountPath `{path}`: spec.volumes[{first[path]}] has it already",
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
                "add `volumeClaimName` (one that exists) or `volumeClaim` (a new one)",
            )
        return
    if volume.volume_claim_name and not update:
        yield error(
            (*where, "volumeClaimName"),
            "the volume has two claims",
            "keep volumeClaimName (one that exists) or volumeClaim",
        )
    if not claim.get("accessModes"):
        yield error(
            (*where, "volumeClaim"), "the claim has no accessModes", 'add `accessModes: ["ReadWriteOnce"]`'
        )
    requests = (claim.get("resources") or {}).get("requests") or {}
    if requests.get("storage") is None:
        yield error(
            (*where, "volumeClaim"),
            "the claim asks for no storage",
            "add `resources: {requests: {storage: 10Gi}}`",
        )


def _taken_paths(job: Job, mounted: dict[str, int]) -> Iterator[Problem]:
    """A container cannot mount two volumes at one path."""
    if not mounted:
        return
    for number, task in enumerate(job.tasks):
        for kind in ("initContainers", "containers"):
            for position, container in enumerate(task.pod_spec.get(kind) or []):
                for place, mount in enumerate(container.get("volumeMounts") or []):
                    path = mount.get("mountPath")
                    if path in mounted:
                        where: Path = (
                            "spec",
                            "tasks",
                            number,
                            "template",
                            "spec",
                            kind,
                            position,
                            "volumeMounts",
                            place,
                        )
                        yield error(
                            (*where, "mountPath"),
                            f"`{path}` is the mountPath of spec.volumes[{mounted[path]}], which every container gets",
                            "choose another path",
                        )
