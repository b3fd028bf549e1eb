"""The plan of a Job: every object that is created for it, as a function of the Job alone.

The pods of a task are shaped once by the Job and its plugins, encoded once and cut at the places that differ
from pod to pod; after that a pod costs microseconds, no pod is kept in memory, and of the templates only some
megabytes are. Both backends and `render` use it. It knows neither clocks nor clusters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from itertools import chain, count, islice
from typing import Any
from weakref import finalize

import msgspec

from vcjob.errors import UserError
from vcjob.plan import names
from vcjob.plan.draft import draft_pod
from vcjob.plan.gang import GangName, gang_named
from vcjob.plan.stencil import MarkClash, Stencil, StencilCache, mark
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.edition import EDITION
from vcjob.plugins.registry import open_plugins
from vcjob.spec.job import Job, Task

_ORDER = {
    kind: place
    for place, kind in enumerate(
        ("ConfigMap", "Service", "NetworkPolicy", "PodGroup", "PersistentVolumeClaim"),
    )
}


#: No plugin writes that many marks by chance; one that repeats every mark would never end.
_TRIES = 100
#: For all plans of the process.
STENCILS = StencilCache(16 * 1024 * 1024)
_numbers = count()


class Plan:
    """All objects of an admitted Job.

    `gang` says how pods are grouped for the scheduler, `scheduler` is the scheduler of pods that request
    Volcano's where that is not running, `priorities` are the values of the cluster's priority classes, and
    `edition` is the one that the Job was started with.
    """

    def __init__(
        self,
        job: Job,
        *,
        gang: GangName = "volcano",
        scheduler: str | None = None,
        priorities: Mapping[str, int] | None = None,
        edition: int = EDITION,
    ) -> None:
        self.job = job
        self._gang = gang_named(gang, scheduler)
        self._priorities = priorities or {}
        self._edition = edition
        self._plugins = open_plugins(job)
        self._late = [(p, o) for p, o in self._plugins if type(p).shape_pod is not Plugin.shape_pod]
        #: Names the plan in the cache of stencils.
        self._number = next(_numbers)
        finalize(self, STENCILS.forget, self._number).atexit = False

    def objects(self, *, ready: Collection[str] | None = None) -> list[dict[str, Any]]:
        """All objects except the pods, in the order of creation.

        `ready` names the tasks whose `dependsOn` is met, for the PodGroup; None means the start of the Job.
        """
        made = [obj for plugin, options in self._plugins for obj in plugin.objects(self.job, options)]
        group = self._gang.pod_group(self.job, ready, self._priorities)
        if group is not None:
            made.append(group)
        made += self._claims()
        owned = [self._owned(obj) for obj in made]
        return sorted(owned, key=lambda obj: _ORDER.get(obj["kind"], len(_ORDER)))

    def pod(
        self, task: str, index: int, *, version: int = 0, attempt: int = 0, retries: int = 0
    ) -> dict[str, Any]:
        """One pod as a dictionary of its own."""
        pod: dict[str, Any] = msgspec.json.decode(
            self.pod_json(task, index, version=version, attempt=attempt, retries=retries)
        )
        return pod

    def pod_json(
        self, task: str, index: int, *, version: int = 0, attempt: int = 0, retries: int = 0
    ) -> bytes:
        """One pod as JSON: `version` and `retries` are the Job's counters, `attempt` the pod's own."""
        found = self._task(task)
        if not 0 <= index < found.replicas:
            raise UserError(
                f"task {task!r} has no index {index}",
                hint=f"its pods are 0 to {found.replicas - 1}" if found.replicas else "it has no replicas",
            )
        policy = found.partition_policy
        text = self._stencil(found).fill(
            {
                "index": index,
                "partition": index // policy.partition_size if policy and policy.partition_size > 0 else 0,
                "attempt": attempt,
                "version": version,
                "retries": retries,
            }
        )
        if not self._late:
            return text
        pod = msgspec.json.decode(text)
        for plugin, options in self._late:
            plugin.shape_pod(pod, found, index, options)
        return msgspec.json.encode(pod)

    def forget_pods(self) -> None:
        """Free the memory of the stencils when all pods exist; they are made again when needed."""
        STENCILS.forget(self._number)

    @property
    def kept_stencils(self) -> int:
        """How many tasks have their stencil in memory."""
        return STENCILS.count(self._number)

    def pods(self, *, version: int = 0, retries: int = 0) -> Iterator[dict[str, Any]]:
        """Every pod by task and index, one at a time."""
        for text in self.pods_json(version=version, retries=retries):
            yield msgspec.json.decode(text)

    def pods_json(self, *, version: int = 0, retries: int = 0) -> Iterator[bytes]:
        for task in self.job.tasks:
            for index in range(task.replicas):
                yield self.pod_json(task.name, index, version=version, retries=retries)

    def render(self) -> Iterator[dict[str, Any]]:
        """The whole plan: the objects, then the pods."""
        yield from self.objects()
        yield from self.pods()

    def render_json(self) -> Iterator[bytes]:
        """The whole plan, each object as JSON."""
        yield from map(msgspec.json.encode, self.objects())
        yield from self.pods_json()

    def _task(self, name: str) -> Task:
        task = self.job.task(name)
        if task is None:
            known = ", ".join(task.name for task in self.job.tasks)
            raise UserError(f"the Job has no task {name!r}", hint=f"its tasks are: {known}")
        return task

    def _stencil(self, task: Task) -> Stencil:
        stencil = STENCILS.get(self._number, task.name)
        if stencil is None:
            stencil = self._cut(task)
            STENCILS.put(self._number, task.name, stencil)
        return stencil

    def _cut(self, task: Task) -> Stencil:
        """The stencil of the task, with the first mark that neither the Job nor a plugin uses in its text."""
        for sign in chain([self._mark], islice(self._free_marks(), 1, _TRIES)):
            with suppress(MarkClash):
                return Stencil(self._shaped(task, sign).pod, sign)
        opened = ", ".join(plugin.name for plugin, _ in self._plugins)
        raise UserError(
            f"the pods of task {task.name!r} cannot be distinguished, because a plugin does not write slots as text",
            hint=f"check these plugins: {opened}; a slot is written with str(draft.index) or str(draft.attempt)",
        )

    @cached_property
    def _mark(self) -> str:
        """The first mark that the Job does not contain; found once, because it takes a search of the whole Job."""
        return next(self._free_marks())

    def _free_marks(self) -> Iterator[str]:
        text = msgspec.json.encode(self.job.doc)
        yield from (sign for sign in map(mark, count()) if sign.encode() not in text)

    def _shaped(self, task: Task, mark: str) -> PodDraft:
        draft = draft_pod(self.job, task, self._gang, mark, self._edition)
        for plugin, options in self._plugins:
            plugin.shape(draft, options)
        _put_env_first(draft)
        return draft

    def _claims(self) -> Iterator[dict[str, Any]]:
        for volume in self.job.spec.volumes:
            if volume.volume_claim is not None and not volume.volume_claim_name:
                yield {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": {"name": names.claim_name(self.job, volume.mount_path)},
                    "spec": volume.volume_claim,
                }

    def _owned(self, obj: dict[str, Any]) -> dict[str, Any]:
        metadata = {
            "name": obj["metadata"]["name"],
            "namespace": self.job.namespace,
            **obj["metadata"],
            "ownerReferences": [names.owner_reference(self.job)],
        }
        return {**obj, "metadata": metadata}


def _put_env_first(draft: PodDraft) -> None:
    """Put the injected variables before those of the container, so that these can refer to them."""
    for key in ("initContainers", "containers"):
        for container in draft.spec.get(key, []):
            own = [entry for entry in container.get("env", []) if entry.get("name") not in draft.injected]
            names = {entry.get("name") for entry in own}
            defaults = [
                entry
                for name, entry in draft.defaults.items()
                if name not in names and name not in draft.injected
            ]
            if draft.injected or defaults or own:
                container["env"] = [*draft.injected.values(), *defaults, *own]
    if draft.spec.get("initContainers") == []:
        del draft.spec["initContainers"]
