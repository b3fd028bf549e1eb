"""The interface of plugins.

A plugin parses its arguments, checks the Job, shapes the pods of a task and adds objects. It is pure:
no clock, no I/O. All plugins of a Job run in one fixed order (`order`, then name), so the pods of a task differ
in their index and in nothing else.

The pods of a task are shaped once, not one by one: where a value depends on the pod, a plugin writes a slot
(`draft.index + 1`) into the text, and the plan fills it in for each pod.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from vcjob.plugins.edition import EDITION
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Problem

Options = TypeVar("Options")
Container = dict[str, Any]


class Slot:
    """A number that differs from pod to pod, as text: `str(draft.index + 1)` or an f-string.

    `kind` is one of index, partition, attempt, version, retries; the plan adds `offset` to the pod's value.
    """

    __slots__ = ("kind", "mark", "offset")

    def __init__(self, mark: str, kind: str, offset: int = 0) -> None:
        self.mark = mark
        self.kind = kind
        self.offset = offset

    def __add__(self, offset: int) -> Slot:
        return Slot(self.mark, self.kind, self.offset + offset)

    def __str__(self) -> str:
        return f"{self.mark}{self.kind}:{self.offset}{self.mark}"


class PodDraft:
    """The pod of one task while the plugins shape it.

    `pod` is a Kubernetes Pod as a plain dictionary, made from the task's template; change it in place.
    Environment goes through `inject_env`, which puts it before the user's own entries, each name once, or
    through `inject_default`, where the user's own value wins. `edition` says which rules the pod is made by.
    """

    __slots__ = ("attempt", "defaults", "edition", "index", "injected", "job", "mark", "pod", "task")

    def __init__(self, job: Job, task: Task, pod: dict[str, Any], mark: str, edition: int = EDITION) -> None:
        self.job = job
        self.task = task
        self.pod = pod
        self.mark = mark
        self.index = Slot(mark, "index")
        self.attempt = Slot(mark, "attempt")
        self.edition = edition
        self.injected: dict[str, dict[str, Any]] = {}
        self.defaults: dict[str, dict[str, Any]] = {}

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.pod["spec"]
        return spec

    @property
    def containers(self) -> list[Container]:
        return self._list("containers")

    @property
    def init_containers(self) -> list[Container]:
        return self._list("initContainers")

    @property
    def volumes(self) -> list[dict[str, Any]]:
        return self._list("volumes")

    def all_containers(self) -> list[Container]:
        """The init containers, then the containers; a list to read, not to append to."""
        return [*(self.spec.get("initContainers") or ()), *(self.spec.get("containers") or ())]

    def _list(self, key: str) -> list[dict[str, Any]]:
        """The list under this key; created if the template has none or a null."""
        found: list[dict[str, Any]] | None = self.spec.get(key)
        if found is None:
            found = self.spec[key] = []
        return found

    def inject_env(
        self, name: str, value: object = None, *, value_from: Mapping[str, Any] | None = None
    ) -> None:
        """Give every container and init container this variable (the first plugin to name it wins)."""
        entry: dict[str, Any] = {"name": name}
        if value_from is not None:
            entry["valueFrom"] = dict(value_from)
        else:
            entry["value"] = str(value)
        self.injected.setdefault(name, entry)

    def inject_default(self, name: str, value: object) -> None:
        """Give this variable to every container and init container that does not set it."""
        self.defaults.setdefault(name, {"name": name, "value": str(value)})

    def inject_shared(self, entries: Mapping[str, dict[str, Any]]) -> None:
        """Give every container all these variables, by name; the entries are shared by all pods: read-only."""
        self.injected = {**self.injected, **entries, **self.injected}


class Plugin(ABC, Generic[Options]):
    """The base of every plugin; third parties register theirs under the entry-point group `vcjob.plugins`.

    The registry opens the plugins that a Job names, admission calls `parse` and `check`, and the plan the others. A
    plugin must depend on the Job alone, so that every backend and every later version makes the same pods.
    """

    name: ClassVar[str]
    #: Lower runs first. pytorch 10, svc 20, env 30; third parties 100 unless they say otherwise.
    order: ClassVar[int] = 100

    @abstractmethod
    def parse(self, arguments: Sequence[str]) -> tuple[Options, list[Problem]]:
        """The arguments as options. A problem's `where` starts at the list: `(3,)` is its fourth item."""

    def opens(self, options: Options) -> Mapping[str, Sequence[str]]:
        """Plugins that this one requires, with the arguments to use where the Job gives them none."""
        return {}

    def check(self, job: Job, options: Options) -> Iterable[Problem]:
        """Problems of the whole Job; `where` is the full path."""
        return ()

    @abstractmethod
    def shape(self, draft: PodDraft, options: Options) -> None:
        """Shape the pods of one task; called once per task."""

    def shape_pod(self, pod: dict[str, Any], task: Task, index: int, options: Options) -> None:
        """Shape one pod by its index, where slots are not enough. Slower; called only if overridden."""

    def objects(self, job: Job, options: Options) -> Iterable[dict[str, Any]]:
        """Further objects, without owner references: the plan adds those."""
        return ()
