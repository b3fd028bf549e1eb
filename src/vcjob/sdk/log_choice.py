"""Whether the ranks, containers and attempts that a user names exist, before their logs are read.

Without this check a mistyped number or name would give an empty log. Used by `Handle.logs` and `vcjob logs`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vcjob.errors import UserError
from vcjob.report.logs import LogFilter

if TYPE_CHECKING:
    from vcjob.sdk.handle import Handle


def check_choice(job: Handle, chosen: LogFilter, *, follow: bool) -> None:
    """UserError that lists what exists. While pods are still missing, nothing but a task is known not to exist."""
    if not any((chosen.tasks, chosen.ranks, chosen.containers, chosen.attempt is not None)):
        return
    _check("task", chosen.tasks, job.replicas_by_task())
    pods = job.pods()
    if len({(pod.task, pod.index) for pod in pods}) < job.replicas:
        return
    _check("rank", chosen.ranks, {pod.rank for pod in pods if pod.rank is not None})
    if all(pod.containers for pod in pods):
        _check("container", chosen.containers, (c.name for pod in pods for c in pod.containers))
    if chosen.attempt is not None and not follow:
        # Earlier attempts have existed, even if a cluster has deleted their pods: the log reader says what is left of them.
        _check("attempt", (chosen.attempt,), range(max((pod.attempt for pod in pods), default=-1) + 1))


def _check(what: str, wanted: Iterable[int | str], existing: Iterable[int | str]) -> None:
    known = list(dict.fromkeys(existing))
    for each in wanted:
        if each not in known:
            named = f"{each!r}" if isinstance(each, str) else str(each)
            listed = ", ".join(str(one) for one in (sorted(known) if isinstance(each, int) else known))
            raise UserError(
                f"the job has no {what} {named}",
                hint=f"its {what}s are: {listed}" if known else f"none of its pods has a {what}",
            )
