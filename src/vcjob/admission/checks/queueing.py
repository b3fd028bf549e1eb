"""Checks of the queue, where the cluster has queues: it exists, is open and accepts Jobs.

`admission.review` calls `check` if its caller (the webhook) passed the cluster's Queues. This module asks no cluster
itself, so `vcjob validate` and local runs accept every queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vcjob.spec.job import Job
from vcjob.spec.problem import Path, Problem, error
from vcjob.spec.spelling import Vocabulary, did_you_mean
from vcjob.spec.wording import listed, show

ROOT = "root"
_WHERE: Path = ("spec", "queue")


def check(job: Job, queues: Mapping[str, Mapping[str, Any]]) -> Iterator[Problem]:
    """`queues` are the cluster's Queue objects by name."""
    name = job.spec.queue or ""
    queue = queues.get(name)
    if name == ROOT:
        yield error(_WHERE, "the root queue accepts no Jobs", "use one of its child queues")
    elif queue is None:
        hint = did_you_mean(name, Vocabulary(queues), _choice(queues))
        yield error(_WHERE, f"there is no queue named `{show(name)}`", hint)
    else:
        state = (queue.get("status") or {}).get("state")
        if state != "Open":
            yield error(
                _WHERE,
                f"the queue `{name}` is not open ({state or 'no state yet'})",
                "use another queue, or open this one",
            )
        children = sorted(
            other for other, body in queues.items() if (body.get("spec") or {}).get("parent") == name
        )
        if children:
            yield error(
                _WHERE,
                f"the queue `{name}` has child queues and accepts no Jobs",
                f"use one of {listed(children, 5)}",
            )


def _choice(queues: Mapping[str, Any]) -> str:
    names = [name for name in sorted(queues) if name != ROOT]
    return f"use one of {listed(names, 5)}" if names else "create a queue first"
