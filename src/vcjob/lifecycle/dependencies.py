"""dependsOn: which tasks may start now, and which may still start later.

Called by `decide` and `phases` with the task states of one pass. Linear in tasks and edges, and without recursion:
the graph comes from a user. Names of tasks that do not exist are ignored here; admission rejects them.
"""

from __future__ import annotations

from collections.abc import Mapping

from vcjob.lifecycle.rules import TaskRules
from vcjob.lifecycle.task_state import TaskState

Rules = Mapping[str, TaskRules]
States = Mapping[str, TaskState]


def ready_tasks(rules: Rules, states: States, ready_before: frozenset[str]) -> tuple[str, ...]:
    """The tasks whose dependsOn is met. One that was ready before, or has started, stays ready."""
    available = {name: states[name].available() >= task.min_available for name, task in rules.items()}

    def is_ready(task: TaskRules) -> bool:
        met = [available[name] for name in task.depends_on if name in available]
        return not met or (all(met) if task.all_of else any(met))

    return tuple(
        name
        for name, task in rules.items()
        if name in ready_before or states[name].has_started or is_ready(task)
    )


def startable_tasks(rules: Rules, states: States, ready: frozenset[str]) -> set[str]:
    """The tasks that are ready or have started, and those whose dependsOn can still be met.

    It can where the tasks named there can still have minAvailable pods available: they have not failed too often,
    and can start themselves. Tasks in a cycle never can.
    """
    missing: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    startable = []
    for name, task in rules.items():
        needed = [other for other in task.depends_on if other in rules]
        if not needed or name in ready or states[name].has_started:
            startable.append(name)
            continue
        missing[name] = len(needed) if task.all_of else 1
        for other in needed:
            dependents.setdefault(other, []).append(name)
    found = set(startable)
    while startable:
        name = startable.pop()
        if rules[name].replicas - len(states[name].failed) < rules[name].min_available:
            continue
        for dependent in dependents.pop(name, ()):
            missing[dependent] -= 1
            if missing[dependent] == 0:
                found.add(dependent)
                startable.append(dependent)
    return found
