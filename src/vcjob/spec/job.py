"""The typed view of a Job.

`Job.doc` keeps the raw document: no field that a user wrote is ever lost, and pod templates stay plain
dictionaries. The view is made after the schema check and has no defaults of its own: a field that is absent
is `None` here, and an explicit `0` is `0`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from vcjob.spec.problem import Path

API_VERSION = "batch.volcano.sh/v1alpha1"
KIND = "Job"
NO_UID = "00000000-0000-0000-0000-000000000000"


class Policy(msgspec.Struct, frozen=True, rename="camel"):
    """What to do (`action`) when something happens (`event`, `events` or `exit_code`).

    The fields are as the user wrote them; admission checks them, and the lifecycle turns them into a table.
    """

    action: str | None = None
    event: str | None = None
    events: tuple[str, ...] = ()
    exit_code: int | None = None
    timeout: str | None = None

    @property
    def all_events(self) -> tuple[str, ...]:
        return ((self.event,) if self.event else ()) + self.events


class DependsOn(msgspec.Struct, frozen=True, rename="camel"):
    """The tasks that must run before this one: `any` of them or `all` (`iteration`)."""

    name: tuple[str, ...] = ()
    iteration: str | None = None


class PartitionPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """How the pods of a task are divided into partitions of equal size.

    A gang scheduler places partitions together; the lifecycle restarts them together.
    """

    total_partitions: int = 0
    partition_size: int = 0
    min_partitions: int = 0
    network_topology: dict[str, Any] | None = None


class Task(msgspec.Struct, frozen=True, rename="camel"):
    """One task: pods that share a template and differ in their index.

    Read by admission, the plan, the plugins and the lifecycle. The template is plain data with every field that the
    user wrote.
    """

    name: str = ""
    replicas: int = 0
    min_available: int | None = None
    template: dict[str, Any] = {}
    policies: tuple[Policy, ...] = ()
    topology_policy: str | None = None
    max_retry: int | None = None
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicy | None = None

    @property
    def pod_spec(self) -> dict[str, Any]:
        return self.template.get("spec") or {}

    def containers(self, number: int) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The init containers, then the containers, each with its path in a Job where this is task `number`."""
        for kind in ("initContainers", "containers"):
            for position, container in enumerate(self.pod_spec.get(kind) or []):
                yield ("spec", "tasks", number, "template", "spec", kind, position), container


class VolumeSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A volume of the Job: an existing claim by name, or a new one.

    The plan mounts it into every container.
    """

    mount_path: str = ""
    volume_claim_name: str | None = None
    volume_claim: dict[str, Any] | None = None


class JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a Job, with the fields of Volcano and two extensions of vcjob."""

    scheduler_name: str | None = None
    min_available: int | None = None
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: tuple[Task, ...] = ()
    policies: tuple[Policy, ...] = ()
    plugins: dict[str, tuple[str, ...] | None] = {}
    running_estimate: str | None = None
    queue: str | None = None
    max_retry: int | None = None
    ttl_seconds_after_finished: int | None = None
    priority_class_name: str | None = None
    min_success: int | None = None
    network_topology: dict[str, Any] | None = None
    # Extensions of vcjob.
    suspend: bool | None = None
    active_deadline_seconds: int | None = None


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of `metadata` that vcjob reads."""

    name: str = ""
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    generation: int | None = None
    deletion_timestamp: str | None = None


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata = Metadata()
    spec: JobSpec = JobSpec()


# msgspec resolves the fields of a type when it first needs them, and crashes if two threads do that at the same time.
msgspec.json.Decoder(_Document)


class Job:
    """A Job: its raw document and the typed view of it. Treat both as read-only.

    Admission makes it from a document that it could read; nothing is checked here. What is derived from a Job may be
    kept per object, because it never changes.
    """

    __slots__ = (
        "__weakref__",
        "_by_name",
        "doc",
        "metadata",
        "name",
        "namespace",
        "replicas",
        "spec",
        "tasks",
        "uid",
    )

    def __init__(self, doc: dict[str, Any]) -> None:
        self.doc = doc
        view = msgspec.convert(_without_nulls(doc), _Document)
        self.metadata = view.metadata
        self.spec = view.spec
        self.name = view.metadata.name
        self.namespace = view.metadata.namespace or "default"
        self.uid = view.metadata.uid or NO_UID
        self.tasks = view.spec.tasks
        self.replicas = sum([task.replicas for task in self.tasks])
        self._by_name = {task.name: task for task in self.tasks}

    def task(self, name: str) -> Task | None:
        return self._by_name.get(name)

    def __repr__(self) -> str:
        return f"Job({self.namespace}/{self.name})"


BackendName = Literal["local", "cluster"]


def _without_nulls(doc: dict[str, Any]) -> dict[str, Any]:
    """The parts that the view reads, with YAML nulls taken as absent (as the API server does).

    Plugin arguments keep their null: `pytorch:` with nothing behind it opens the plugin. Templates
    are handed over untouched.
    """
    spec = dict(_dropped(doc.get("spec") or {}))
    spec["tasks"] = [_task_without_nulls(task) for task in spec.get("tasks") or []]
    if "policies" in spec:
        spec["policies"] = [_dropped(policy) for policy in spec["policies"]]
    if "volumes" in spec:
        spec["volumes"] = [_dropped(volume) for volume in spec["volumes"]]
    metadata = _dropped(doc.get("metadata") or {})
    for key in ("labels", "annotations"):
        if key in metadata:
            metadata[key] = _dropped(metadata[key])
    return {"metadata": metadata, "spec": spec}


def _task_without_nulls(task: dict[str, Any]) -> dict[str, Any]:
    task = _dropped(task)
    if "policies" in task:
        task["policies"] = [_dropped(policy) for policy in task["policies"]]
    for key in ("dependsOn", "partitionPolicy"):
        if key in task:
            task[key] = _dropped(task[key])
    return task


def _dropped(mapping: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in mapping.items() if value is not None}
