"""Checks of dependsOn: every name is a task, and no task depends on itself, directly or through others.

`admission.review` calls `check` with a readable Job. Problems are returned, never raised; the search for cycles takes
time in proportion to the tasks and their dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from vcjob.spec.job import Job
from vcjob.spec.problem import Problem, error
from vcjob.spec.spelling import Vocabulary, did_you_mean
from vcjob.spec.wording import show

#: Cycles that are reported, and tasks that are named of each.
_MAX_CYCLES = 10
_SHOWN_TASKS = 8


def check(job: Job) -> Iterator[Problem]:
    names = {task.name for task in job.tasks}
    vocabulary = Vocabulary(task.name for task in job.tasks)
    needs: dict[str, tuple[str, ...]] = {}
    for number, task in enumerate(job.tasks):
        needed = task.depends_on.name if task.depends_on else ()
        needs[task.name] = tuple(name for name in needed if name in names)
        for position, name in enumerate(needed):
            if name not in names:
                yield error(
                    ("spec", "tasks", number, "dependsOn", "name", position),
                    f"there is no task named `{show(name)}`",
                    did_you_mean(name, vocabulary, "name a task of this Job"),
                )
    yield from islice(_cycles(job, needs), _MAX_CYCLES)


def _cycles(job: Job, needs: dict[str, tuple[str, ...]]) -> Iterator[Problem]:
    """One problem for each cycle, found by an iterative depth-first search."""
    number_of = {task.name: number for number, task in enumerate(job.tasks)}
    done: set[str] = set()
    for start in needs:
        path: list[str] = []
        on_path: set[str] = set()
        visits = [(start, False)]  # a task is visited twice: before and after the tasks that it needs
        while visits:
            name, leaving = visits.pop()
            if leaving:
                path.pop()
                on_path.discard(name)
                done.add(name)
            elif name in on_path:
                cycle = [*path[path.index(name) :], name]
                yield error(
                    ("spec", "tasks", number_of[path[-1]], "dependsOn"),
                    f"the tasks depend on each other in a cycle: {_chain(cycle)}",
                    "remove one of these dependencies",
                )
            elif name not in done:
                path.append(name)
                on_path.add(name)
                visits.append((name, True))
                visits += [(needed, False) for needed in needs[name]]


def _chain(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN_TASKS:
        return " → ".join(names)
    return " → ".join([*names[: _SHOWN_TASKS - 2], f"… ({len(names) - _SHOWN_TASKS} more)", *names[-2:]])
