"""The Job's queue, where the cluster has queues: it exists, is open, and takes jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.spelling import nearest

ROOT = "root"
_WHERE: Path = ("spec", "queue")


def check(job: Job, queues: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """`queues` are the cluster's Queue objects by name."""
    name = job.spec.queue or ""
    queue = queues.get(name)
    if name == ROOT:
        yield error(_WHERE, "the root queue takes no jobs", "use a queue below it")
    elif queue is None:
        near = nearest(name, queues)
        yield error(
            _WHERE,
            f"there is no queue named `{name}`",
            f"did you mean `{near}`?" if near else _choice(queues),
        )
    else:
        state = (queue.get("status") or {}).get("state")
        if state != "Open":
            yield error(
                _WHERE,
                f"the queue `{name}` is not open ({state or 'no state yet'})",
                "use another, or open it",
            )
        children = sorted(
            other for other, body in queues.items() if (body.get("spec") or {}).get("parent") == name
        )
        if children:
            yield error(
                _WHERE,
                f"the queue `{name}` is a parent and takes no jobs",
                f"one of {', '.join(children[:5])}",
            )


def _choice(queues: Mapping[str, Any]) -> str:
    names = [name for name in sorted(queues) if name != ROOT]
    return f"one of {', '.join(names[:5])}" if names else "make a queue first"
