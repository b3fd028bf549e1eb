"""The parts of a Job's spec that decisions need, with defaults applied.

`rules_of` computes them once for each Job object and keeps them as long as the object lives. The decisions and the
controller read them. A Job that was not admitted must not be passed in: nothing is checked here.
"""

from __future__ import annotations

from functools import lru_cache
from weakref import WeakKeyDictionary

from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.policies import PolicyEvent, PolicyMatch, PolicyTable
from vcjob.plugins.pytorch_options import parse_options
from vcjob.spec.job import Job, Policy, Task
from vcjob.wellknown.annotations import ON_HANG, ON_RANK_FAILURE

DEFAULT_MAX_RETRY = 3


class TaskRules:
    """The rules of one task, with defaults applied. Read-only.

    Held by `Rules`; dependencies, policies and actions read it.
    """

    __slots__ = (
        "_every_index", "all_of", "depends_on", "max_restarts", "min_available", "name", "partition_size",
        "rank_offset", "replicas",
    )  # fmt: skip

    def __init__(self, task: Task, rank_offset: int | None) -> None:
        self.name = task.name
        self.replicas = task.replicas
        self._every_index: IndexSet | None = None
        # An explicit 0 counts as absent.
        self.min_available = task.min_available or task.replicas
        # At least one restart must happen before there is something to count.
        self.max_restarts = max(1, DEFAULT_MAX_RETRY if task.max_retry is None else task.max_retry)
        self.depends_on = task.depends_on.name if task.depends_on else ()
        self.all_of = not (task.depends_on and task.depends_on.iteration == "any")
        self.partition_size = task.partition_policy.partition_size if task.partition_policy else 0
        #: The rank of index 0; None where the task's pods have none.
        self.rank_offset = rank_offset

    @property
    def every_index(self) -> IndexSet:
        """Built when it is first needed: a Job that is paused because it exceeds the limits can ask for any number of pods."""
        if self._every_index is None:
            self._every_index = IndexSet.span(0, self.replicas)
        return self._every_index

    def rank(self, index: int) -> int | None:
        return None if self.rank_offset is None else self.rank_offset + index

    def partitions(self, indexes: IndexSet) -> IndexSet:
        """All indexes that restart together with one of these. Linear in the indexes, however many partitions they are in."""
        size = self.partition_size or 1
        ranges = ((first // size * size, last // size * size + size - 1) for first, last in indexes.ranges())
        return IndexSet.of_ranges(ranges, self.replicas)


class Rules:
    """The rules of a Job and of its tasks, by name. Read-only; `shape` changes when the Job is scaled.

    `rules_of` makes it from an admitted Job; `DecisionContext` holds it during a decision.
    """

    __slots__ = (
        "_policies", "_tables", "active_deadline", "max_runs", "min_available", "min_success", "on_hang",
        "ranks_matter", "replicas", "shape", "suspend", "tasks", "ttl",
    )  # fmt: skip

    def __init__(self, job: Job) -> None:
        spec = job.spec
        master, worker = (
            _rank_tasks(spec.plugins.get("pytorch") or ()) if "pytorch" in spec.plugins else ("", "")
        )
        offsets = {worker: 1, master: 0}
        self.tasks = {task.name: TaskRules(task, offsets.get(task.name)) for task in spec.tasks}
        self.replicas = job.replicas
        least = sum(task.min_available for task in self.tasks.values())
        self.min_available = spec.min_available or least
        self.min_success = spec.min_success
        # The number of runs: 0 and 1 both mean that nothing is restarted.
        self.max_runs = max(1, DEFAULT_MAX_RETRY if spec.max_retry is None else spec.max_retry)
        #: The policies of each task, and under "" those of the Job, with the tables that were needed so far.
        self._policies: dict[str, tuple[Policy, ...]] = {task.name: task.policies for task in spec.tasks}
        self._policies[""] = spec.policies
        self._tables: dict[str, PolicyTable] = {}
        self.ranks_matter = job.metadata.annotations.get(ON_RANK_FAILURE) != "ignore"
        self.on_hang = job.metadata.annotations.get(ON_HANG) or "warn"
        self.suspend = bool(spec.suspend)
        self.active_deadline = spec.active_deadline_seconds
        self.ttl = spec.ttl_seconds_after_finished
        sizes = [f"{task.name}={task.replicas}/{task.min_available}" for task in self.tasks.values()]
        self.shape = ",".join([f"{self.min_available}", *sizes])

    def match_policy(self, event: PolicyEvent) -> PolicyMatch | None:
        """The policy that applies to an event: those of its task before those of the Job, the first that matches."""
        found = self._table(event.task).match(event, f"task {event.task}") if event.task else None
        return found or self._table("").match(event, "the job")

    def _table(self, owner: str) -> PolicyTable:
        table = self._tables.get(owner)
        if table is None:
            table = self._tables[owner] = PolicyTable(self._policies.get(owner, ()))
        return table


_known: WeakKeyDictionary[Job, Rules] = WeakKeyDictionary()


def rules_of(job: Job) -> Rules:
    """Computed once for each Job object, which never changes."""
    rules = _known.get(job)
    if rules is None:
        rules = _known[job] = Rules(job)
    return rules


@lru_cache(maxsize=256)
def _rank_tasks(arguments: tuple[str, ...]) -> tuple[str, str]:
    options, _ = parse_options(arguments)
    return options.master, options.worker
