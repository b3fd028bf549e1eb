"""The pods that a gang needs to start, and the resources that they need together.

`plan.gang` writes them into a PodGroup. They depend on the Job, the tasks that are ready and the priority classes
that the caller passes: nothing is asked from a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from vcjob.plan.resources import Amounts, group_names, pod_limits, pod_requests, render, times, total
from vcjob.spec.job import Job, Task

#: Priority classes that every cluster has.
_SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class Members:
    """The members of a Job's gang among the tasks that are ready.

    A task whose `dependsOn` is not met has no pods and does not count: otherwise the gang would wait for pods
    that wait for the gang. With `ready` None, the tasks without `dependsOn` are ready.
    """

    def __init__(self, job: Job, ready: Collection[str] | None, priorities: Mapping[str, int]) -> None:
        self._job = job
        self._priorities = {**_SYSTEM_PRIORITIES, **priorities}
        if ready is None:
            self.tasks = [task for task in job.tasks if not (task.depends_on and task.depends_on.name)]
        else:
            self.tasks = [task for task in job.tasks if task.name in ready]

    @property
    def min_task_member(self) -> dict[str, int]:
        return {task.name: min_available(task) for task in self.tasks}

    @property
    def min_member(self) -> int:
        needed = sum(min_available(task) for task in self.tasks)
        wanted = self._job.spec.min_available
        if wanted is None:
            return needed
        return wanted if len(self.tasks) == len(self._job.tasks) else min(wanted, needed)

    @property
    def min_resources(self) -> dict[str, str]:
        """By the names that quotas and queues use: `cpu`, `requests.cpu`, `pods`, `count/pods`, ..."""
        each = [
            times(group_names(pod_requests(t.pod_spec), pod_limits(t.pod_spec)), n) for t, n in self._counted
        ]
        return render(total(each))

    @property
    def min_node_resources(self) -> dict[str, str]:
        """By the names that nodes use: `cpu`, `memory`, `nvidia.com/gpu`."""
        each: list[Amounts] = [times(pod_requests(task.pod_spec), count) for task, count in self._counted]
        return render(total(each))

    @cached_property
    def _counted(self) -> list[tuple[Task, int]]:
        """The first `min_member` pods as (task, how many), tasks of a higher priority first."""
        tasks = sorted(self.tasks, key=self._priority, reverse=True)
        left = self.min_member
        if left < sum(min_available(task) for task in tasks):
            wanted = [(task, task.replicas) for task in tasks]
        else:
            # The minimum of each task comes first, then the further pods that the Job requires.
            wanted = [(task, min_available(task)) for task in tasks]
            wanted += [(task, task.replicas - min_available(task)) for task in tasks]
        counted = []
        for task, count in wanted:
            taken = min(count, left)
            left -= taken
            if taken > 0:
                counted.append((task, taken))
        return counted

    def _priority(self, task: Task) -> int:
        return self._priorities.get(str(task.pod_spec.get("priorityClassName")), 0)


def min_available(task: Task) -> int:
    return task.replicas if task.min_available is None else task.min_available
