"""The pytorch plugin: gives each pod its rank, the address and port of the master, and optionally a container
that waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from vcjob.plugins.base import Container, Plugin, PodDraft, Slot
from vcjob.plugins.edition import LOCAL_RANK
from vcjob.plugins.flight_recorder import add_agent, agent_config_map
from vcjob.plugins.hosts import address
from vcjob.plugins.pytorch_checks import INJECT, check_job
from vcjob.plugins.pytorch_options import PytorchOptions, parse_options
from vcjob.plugins.wait import CONTAINER_NAME, wait_container
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Problem

PORT_NAME = "pytorchjob-port"


class PytorchPlugin(Plugin[PytorchOptions]):
    """Ranks, the address of the master, and the variables that torch.distributed reads.

    In the registry as `pytorch`. Its arguments are read by `pytorch_options`, its checks are in `pytorch_checks`.
    """

    name: ClassVar[str] = "pytorch"
    order: ClassVar[int] = 10

    def parse(self, arguments: Sequence[str]) -> tuple[PytorchOptions, list[Problem]]:
        return parse_options(arguments)

    def opens(self, options: PytorchOptions) -> Mapping[str, Sequence[str]]:
        # Ranks must find each other before they are Ready.
        return {"svc": ("--publish-not-ready-addresses=true",)}

    def check(self, job: Job, options: PytorchOptions) -> Iterable[Problem]:
        return check_job(job, options)

    def shape(self, draft: PodDraft, options: PytorchOptions) -> None:
        job, task = draft.job, draft.task
        master = job.task(options.master)
        if master is None:
            return
        rank = rank_of(draft.index, task, options)
        master_address = address(job, master, 0)
        nodes = world_size(job, options)
        draft.inject_env("MASTER_ADDR", master_address)
        draft.inject_env("MASTER_PORT", options.port)
        draft.inject_env("WORLD_SIZE", nodes)
        if rank is not None:
            draft.inject_env("RANK", rank)
            if options.nproc_per_node:
                draft.inject_env("PET_NNODES", nodes)
                draft.inject_env("PET_NODE_RANK", rank)
                draft.inject_env("PET_NPROC_PER_NODE", options.nproc_per_node)
                draft.inject_env("PET_MASTER_ADDR", master_address)
                draft.inject_env("PET_MASTER_PORT", options.port)
            elif options.local_rank and draft.edition >= LOCAL_RANK:
                # Scripts written for torchrun read these; the pod runs one rank.
                draft.inject_default("LOCAL_RANK", 0)
                draft.inject_default("LOCAL_WORLD_SIZE", 1)
            if options.flight_recorder:
                add_agent(draft)
        open_port(draft.spec, options.port)
        if options.wait_master_enabled and task.name == options.worker:
            _add_wait(draft, options)
        if options.disable_istio_sidecar:
            _disable_sidecar(draft.pod)

    def objects(self, job: Job, options: PytorchOptions) -> Iterator[dict[str, Any]]:
        if options.flight_recorder:
            yield agent_config_map(job)


def world_size(job: Job, options: PytorchOptions) -> int:
    """The number of pods that have a rank."""
    return sum(task.replicas for task in job.tasks if task.name in (options.master, options.worker))


def rank_of(index: Slot, task: Task, options: PytorchOptions) -> Slot | None:
    """The rank of pod `index`: 0 for the master, i+1 for worker i, None for pods of other tasks."""
    if task.name == options.master:
        return index
    return index + 1 if task.name == options.worker else None


def open_port(spec: dict[str, Any], port: int) -> None:
    """Declare the port in every container; with hostNetwork, in one container of the pod only."""
    containers: list[Container] = spec.get("containers") or []
    once_per_pod = bool(spec.get("hostNetwork"))
    declared = once_per_pod and any(_declares(container, port) for container in containers)
    for container in containers:
        if declared or _declares(container, port):
            continue
        declared = once_per_pod
        ports = container.get("ports") or []
        entry: dict[str, Any] = {"containerPort": port}
        if all(other.get("name") != PORT_NAME for other in ports):
            entry["name"] = PORT_NAME
        container["ports"] = [*ports, entry]


def _declares(container: Container, port: int) -> bool:
    return any(
        entry.get("containerPort") == port and (entry.get("protocol") or "TCP") == "TCP"
        for entry in container.get("ports") or []
    )


def _add_wait(draft: PodDraft, options: PytorchOptions) -> None:
    # Where one task is both master and worker, replica 0 has this container too; it sees RANK=0 and exits.
    if any(container.get("name") == CONTAINER_NAME for container in draft.spec.get("initContainers") or []):
        return
    draft.init_containers.append(
        wait_container(
            draft.spec,
            image=options.wait_master_image,
            timeout=options.wait_master_timeout,
            set_user=options.wait_master_set_user,
        )
    )


def _disable_sidecar(pod: dict[str, Any]) -> None:
    # Istio reads the label; the annotation is for its releases before 1.10.
    metadata = pod["metadata"]
    for kind in ("labels", "annotations"):
        metadata[kind] = {**(metadata.get(kind) or {}), INJECT: "false"}
