"""dependsOn: every name is a task, and no task waits for itself."""

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
    waits: dict[str, tuple[str, ...]] = {}
    for number, task in enumerate(job.tasks):
        needed = task.depends_on.name if task.depends_on else ()
        waits[task.name] = tuple(name for name in needed if name in names)
        for place, name in enumerate(needed):
            if name not in names:
                yield error(
                    ("spec", "tasks", number, "dependsOn", "name", place),
                    f"there is no task named `{show(name)}`",
                    did_you_mean(name, vocabulary, "name a task of this Job"),
                )
    yield from islice(_cycles(job, waits), _MAX_CYCLES)


def _cycles(job: Job, waits: dict[str, tuple[str, ...]]) -> Iterator[Problem]:
    """One problem for each cycle, found by a depth-first walk that needs no recursion."""
    place = {task.name: number for number, task in enumerate(job.tasks)}
    done: set[str] = set()
    for start in waits:
        trail: list[str] = []
        on_trail: set[str] = set()
        todo = [(start, False)]
        while todo:
            name, left = todo.pop()
            if left:
                trail.pop()
                on_trail.discard(name)
                done.add(name)
            elif name in on_trail:
                circle = [*trail[trail.index(name) :], name]
                yield error(
                    ("spec", "tasks", place[trail[-1]], "dependsOn"),
                    f"the tasks depend on each other in a cycle: {_chain(circle)}",
                    "remove one of these dependencies",
                )
            elif name not in done:
                trail.append(name)
                on_trail.add(name)
                todo.append((name, True))
                todo += [(needed, False) for needed in waits[name]]


def _chain(names: Sequence[str]) -> str:
    if len(names) <= _SHOWN_TASKS:
        return " → ".join(names)
    return " → ".join([*names[: _SHOWN_TASKS - 2], f"… ({len(names) - _SHOWN_TASKS} more)", *names[-2:]])
