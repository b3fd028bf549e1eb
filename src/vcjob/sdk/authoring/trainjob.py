"""A Kubeflow TrainJob (trainer.kubeflow.org/v1alpha1) as a Volcano Job. Used by `convert`.

A TrainJob names a runtime that holds the rest of its pods. The runtime is an object of the cluster and is not read, so
its image and command must be in the TrainJob; a note says so where they are not.
"""

from __future__ import annotations

from typing import Any

from vcjob.errors import UserError
from vcjob.sdk.authoring.building import DEFAULT_IMAGE, pytorch_job
from vcjob.sdk.authoring.foreign_fields import (
    Fields,
    Note,
    mapping_at,
    metadata_of,
    note_processes,
    runs_torchrun,
)
from vcjob.spec.document import copied

#: What a Volcano Job has in other places.
_INSTEAD = {
    "initializer": "download the dataset and the model in the program, or in an init container of the tasks",
    "podTemplateOverrides": "write what it changes into the templates of the tasks",
}


def convert_trainjob(document: dict[str, Any], notes: list[Note]) -> dict[str, Any]:
    """The Volcano Job; what has no equivalent is added to `notes`."""
    spec = Fields(document.get("spec"), "spec", notes)
    runtime = spec.inner("runtimeRef")
    runtime_name = runtime.take("name", "its runtime")
    trainer = spec.inner("trainer")
    command, args = trainer.words("command"), trainer.words("args")
    image = trainer.take("image")
    if not image:
        trainer.note(
            "image", f"is not set: add the image of {runtime_name}; {DEFAULT_IMAGE} stands in its place"
        )
    if not command:
        trainer.note("command", f"is not set: add the command of {runtime_name}")
    spec.note("runtimeRef", f"was left out: add what {runtime_name} defines for its pods, such as volumes")
    nproc = trainer.take("numProcPerNode")
    if runs_torchrun((*command, *args)):
        nproc = "auto" if nproc is None else nproc
    elif command and nproc is not None:
        note_processes(trainer, "numProcPerNode", nproc)
    nodes = trainer.take("numNodes", 1)
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise UserError(
            "spec.trainer.numNodes must be a number of at least 1", hint="correct it in the original file"
        )
    job = pytorch_job(
        "",
        command=command,
        args=args,
        image=image,
        workers=nodes - 1,
        nproc_per_node=nproc,
    )
    env, resources = trainer.take("env"), trainer.take("resourcesPerNode")
    for task in job["spec"]["tasks"]:
        container = task["template"]["spec"]["containers"][0]
        container |= {"env": copied(env)} if env else {}
        container |= {"resources": copied(resources)} if resources else {}
    trainer.rest()
    for name in ("suspend", "activeDeadlineSeconds"):
        if name in spec:
            job["spec"][name] = spec.take(name)
    metadata = metadata_of(document, notes)
    for name in ("labels", "annotations"):
        if name in spec:
            metadata[name] = {**mapping_at(f"metadata.{name}", metadata.get(name)), **spec.mapping(name)}
    for name, instead in _INSTEAD.items():
        if spec.take(name) is not None:
            spec.note(name, f"was left out: {instead}")
    spec.rest()
    return {**job, "metadata": metadata}
